#include "control/convert.h"
#include "control/convert_parts.h"

namespace leat::control {
namespace {

using leat::control::Put;
using leat::control::Take;

void Put(const protocol::JoinRequest& in, pb::JoinRequest* out) {
  out->set_role(static_cast<pb::Role>(in.role));
  out->set_version(in.version);
  out->set_address(in.address);
  out->set_host(in.host);
  out->set_pid(in.pid);
  out->set_job_hash(in.job_hash);
  out->set_process(in.process);
  out->set_network(in.network);
  out->set_local_host(in.local_host);
  out->set_standby(in.standby);
  out->mutable_place()->set_site(in.place.site);
  out->mutable_place()->set_zone(in.place.zone);
  out->mutable_place()->set_host_class(in.place.host_class);
  out->set_round_trip_ns(in.round_trip.count());
  out->set_attempts(in.attempts);
  if (!in.mpi) return;
  out->mutable_mpi()->set_rank(in.mpi->rank);
  out->mutable_mpi()->set_members(in.mpi->members);
}

void Take(const pb::JoinRequest& in, protocol::JoinRequest* out, Check* check) {
  TakeRole(in.role(), &out->role, check);
  TakeText(in.version(), Limits::kName, "version", &out->version, check);
  TakeText(in.address(), Limits::kName, "address", &out->address, check);
  TakeText(in.host(), Limits::kName, "host", &out->host, check);
  out->pid = in.pid();
  out->job_hash = in.job_hash();
  out->process = in.process();
  out->network = in.network();
  TakeText(in.local_host(), Limits::kName, "local_host", &out->local_host, check);
  out->standby = in.standby();
  out->place = {in.place().site(), in.place().zone(), in.place().host_class()};
  if (const Status good = topology::Check(out->place); !good.ok()) check->Fail(good.message());
  TakeDuration(in.round_trip_ns(), "round_trip_ns", &out->round_trip, check);
  out->attempts = in.attempts();
  if (in.has_mpi()) out->mpi = {in.mpi().rank(), in.mpi().members()};
}

void Put(const protocol::WorkerProgress& in, pb::WorkerProgress* out) {
  out->set_steps(in.steps);
  out->set_events(in.events);
  out->set_loss_sum(in.loss_sum);
  out->set_correct(in.correct);
  out->set_rejected_batches(in.rejected_batches);
  out->set_dead_letters(in.dead_letters);
  out->set_cpu_seconds(in.cpu_seconds);
  out->set_compute_seconds(in.compute_seconds);
  out->set_wait_seconds(in.wait_seconds);
  out->set_longest_step_seconds(in.longest_step_seconds);
  out->set_scores(std::string(AsText(in.scores)));
  out->set_true_scores(std::string(AsText(in.true_scores)));
  out->set_feed_bytes(in.feed_bytes);
  out->set_feed_retries(in.feed_retries);
  out->set_push_retries(in.push_retries);
  out->set_input_records(in.input_records);
  out->set_input_bytes(in.input_bytes);
  out->set_decode_seconds(in.decode_seconds);
  out->set_input_wait_seconds(in.input_wait_seconds);
  out->set_splits_ready(in.splits_ready);
  out->set_last_dead_letter(in.last_dead_letter.substr(0, Limits::kText));
  out->set_absolute_error(in.absolute_error);
  out->set_unjoined(in.unjoined);
  out->set_lost_to_retention(in.lost_to_retention);
  out->set_first_batch(in.first_batch);
  for (const auto& batch : in.batches) {
    auto* scores = out->add_batches();
    scores->set_events(batch.events);
    scores->set_loss_sum(batch.loss_sum);
    scores->set_correct(batch.correct);
    scores->set_absolute_error(batch.absolute_error);
  }
  out->set_share(std::string(AsText(in.share)));
}

void Take(const pb::WorkerProgress& in, protocol::WorkerProgress* out, Check* check) {
  out->steps = in.steps();
  out->events = in.events();
  out->loss_sum = in.loss_sum();  // not finite after divergence: reported, not rejected
  out->correct = in.correct();
  out->rejected_batches = in.rejected_batches();
  out->dead_letters = in.dead_letters();
  TakeSeconds(in.cpu_seconds(), "cpu_seconds", &out->cpu_seconds, check);
  TakeSeconds(in.compute_seconds(), "compute_seconds", &out->compute_seconds, check);
  TakeSeconds(in.wait_seconds(), "wait_seconds", &out->wait_seconds, check);
  TakeSeconds(in.longest_step_seconds(), "longest_step_seconds", &out->longest_step_seconds, check);
  TakeBytes(in.scores(), Limits::kScores, "scores", &out->scores, check);
  TakeBytes(in.true_scores(), Limits::kScores, "true_scores", &out->true_scores, check);
  out->feed_bytes = in.feed_bytes();
  out->feed_retries = in.feed_retries();
  out->push_retries = in.push_retries();
  out->input_records = in.input_records();
  out->input_bytes = in.input_bytes();
  TakeSeconds(in.decode_seconds(), "decode_seconds", &out->decode_seconds, check);
  TakeSeconds(in.input_wait_seconds(), "input_wait_seconds", &out->input_wait_seconds, check);
  out->splits_ready = in.splits_ready();
  TakeText(in.last_dead_letter(), Limits::kText, "last_dead_letter", &out->last_dead_letter, check);
  out->absolute_error = in.absolute_error();
  out->unjoined = in.unjoined();
  out->lost_to_retention = in.lost_to_retention();
  out->first_batch = in.first_batch();
  TakeBytes(in.share(), Limits::kShare, "share", &out->share, check);
  if (!check->Count(in.batches_size(), Limits::kBatches, "batches")) return;
  for (const auto& batch : in.batches())
    out->batches.push_back({batch.events(), batch.loss_sum(), batch.correct(), batch.absolute_error()});
}

void Put(const protocol::MemberReport& in, pb::MemberReport* out) {
  out->set_group(in.group);
  out->set_holds(in.holds);
  out->set_connected(in.connected);
  out->set_step(in.step);
  out->set_events(in.events);
  Put(in.partitions, out->mutable_partitions());
  out->set_rounds_until(in.rounds_until);
  out->set_failure(in.failure.substr(0, Limits::kText));
  if (in.shard) Put(*in.shard, out->mutable_shard());
  out->set_consecutive_rejected(in.consecutive_rejected);
  if (in.rejected) Put(*in.rejected, out->mutable_rejected());
  out->set_skipped(in.skipped);
  out->set_waiting(in.waiting);
  out->set_started(in.started);
}

void Take(const pb::MemberReport& in, protocol::MemberReport* out, Check* check) {
  out->group = in.group();
  out->holds = in.holds();
  out->connected = in.connected();
  out->step = in.step();
  out->events = in.events();
  Take(in.partitions(), 0, &out->partitions, check);
  out->rounds_until = in.rounds_until();
  TakeText(in.failure(), Limits::kText, "member_report.failure", &out->failure, check);
  if (in.has_shard()) Take(in.shard(), &out->shard.emplace(), check);
  out->consecutive_rejected = in.consecutive_rejected();
  if (in.has_rejected()) Take(in.rejected(), &out->rejected.emplace(), check);
  out->skipped = in.skipped();
  out->waiting = in.waiting();
  out->started = in.started();
}

void Put(const protocol::LeaseClaim& in, pb::LeaseClaim* out) {
  out->set_lease(in.lease);
  out->set_partition(in.partition);
  Put(in.begin, out->mutable_begin());
  out->set_first_step(in.first_step);
  out->set_lane(in.lane);
}

void Take(const pb::LeaseClaim& in, protocol::LeaseClaim* out, Check* check) {
  out->lease = in.lease();
  check->That(in.partition() < Limits::kPartitions, "claim.partition", in.partition());
  out->partition = in.partition();
  Take(in.begin(), &out->begin, check);
  out->first_step = in.first_step();
  out->lane = in.lane();
}

void Put(const protocol::ElectorState& in, pb::ElectorState* out) {
  out->set_promised(in.promised);
  out->set_set_term(in.set_term);
  out->set_set_epoch(in.set_epoch);
}

protocol::ElectorState Taken(const pb::ElectorState& in) {
  return {in.promised(), in.set_term(), in.set_epoch()};
}

void Put(const protocol::WorkerHeartbeat& in, pb::WorkerHeartbeat* out) {
  out->set_node(in.node.value);
  out->set_metrics(in.metrics);
  out->set_term(in.term);
  out->set_generation(in.generation.value);
  out->set_leases_wanted(in.leases_wanted);
  Put(in.held, out->mutable_held());
  Put(in.released, out->mutable_released());
  for (const auto& claim : in.claims) Put(claim, out->add_claims());
  out->set_leaving(in.leaving);
  out->set_waiting(in.waiting);
  for (NodeId server : in.unreachable) out->add_unreachable(server.value);
  out->set_can_rescore(in.can_rescore);
  Put(in.rescoring, out->mutable_rescoring());
  for (const auto& unsent : in.unsent) {
    auto* u = out->add_unsent();
    u->set_partition(unsent.partition);
    u->set_begin(unsent.begin);
  }
  Put(in.progress, out->mutable_progress());
  if (in.member_report) Put(*in.member_report, out->mutable_member_report());
  Put(in.elector, out->mutable_elector());
  out->set_gradients(std::string(AsText(in.gradients)));
}

void Take(const pb::WorkerHeartbeat& in, protocol::WorkerHeartbeat* out, Check* check) {
  out->node = NodeId(in.node());
  TakeText(in.metrics(), Limits::kName, "metrics", &out->metrics, check);
  out->term = in.term();
  out->generation = Generation(in.generation());
  check->That(in.leases_wanted() <= Limits::kLeases, "leases_wanted", in.leases_wanted());
  out->leases_wanted = in.leases_wanted();
  Take(in.held(), Limits::kLeases, "held leases", &out->held, check);
  Take(in.released(), Limits::kLeases, "released leases", &out->released, check);
  if (!check->Count(in.claims_size(), Limits::kLeases, "claims")) return;
  for (const auto& claim : in.claims()) Take(claim, &out->claims.emplace_back(), check);
  out->leaving = in.leaving();
  out->waiting = in.waiting();
  if (!check->Count(in.unreachable_size(), Limits::kMembers, "unreachable servers")) return;
  for (uint64_t server : in.unreachable()) out->unreachable.emplace_back(server);
  out->can_rescore = in.can_rescore();
  Take(in.rescoring(), Limits::kLeases, "leases to score", &out->rescoring, check);
  if (!check->Count(in.unsent_size(), Limits::kPartitions, "partitions with unsent scores")) return;
  for (const auto& unsent : in.unsent()) {
    check->That(unsent.partition() < Limits::kPartitions, "unsent.partition", unsent.partition());
    out->unsent.push_back({unsent.partition(), unsent.begin()});
  }
  Take(in.progress(), &out->progress, check);
  if (in.has_member_report()) Take(in.member_report(), &out->member_report.emplace(), check);
  out->elector = Taken(in.elector());
  TakeBytes(in.gradients(), Limits::kGradients, "gradients", &out->gradients, check);
}

void Put(const protocol::LedgerReport& in, pb::LedgerReport* out) {
  Put(in.slices, out->mutable_slices());
  out->set_events(in.events);
  Put(in.partitions, out->mutable_partitions());
  out->set_version(in.version);
  out->set_first_partition(in.first_partition);
  out->set_more(in.more);
}

void Take(const pb::LedgerReport& in, protocol::LedgerReport* out, Check* check) {
  Take(in.slices(), &out->slices, check);
  out->events = in.events();
  const auto limit = static_cast<uint32_t>(Limits::kPartitions);
  if (!check->That(in.first_partition() <= limit, "first_partition", in.first_partition())) return;
  out->first_partition = in.first_partition();
  Take(in.partitions(), out->first_partition, &out->partitions, check);
  out->version = in.version();
  out->more = in.more();
}

void Put(const protocol::ServerProgress& in, pb::ServerProgress* out) {
  out->set_pushes(in.pushes);
  out->set_pulls(in.pulls);
  out->set_bytes_in(in.bytes_in);
  out->set_bytes_out(in.bytes_out);
  out->set_bytes_held(in.bytes_held);
  out->set_duplicates(in.duplicates);
  Put(in.staleness, out->mutable_staleness());
  out->set_staleness_sum(in.staleness_sum);
  out->set_staleness_count(in.staleness_count);
  out->set_cpu_seconds(in.cpu_seconds);
  out->set_skipped(in.skipped);
  out->set_conflicts(in.conflicts);
  out->set_bytes_moved(in.bytes_moved);
  out->set_refused(in.refused);
}

void Take(const pb::ServerProgress& in, protocol::ServerProgress* out, Check* check) {
  out->pushes = in.pushes();
  out->pulls = in.pulls();
  out->bytes_in = in.bytes_in();
  out->bytes_out = in.bytes_out();
  out->bytes_held = in.bytes_held();
  out->duplicates = in.duplicates();
  Take(in.staleness(), Limits::kBins, "bins of staleness", &out->staleness, check);
  out->staleness_sum = in.staleness_sum();
  out->staleness_count = in.staleness_count();
  TakeSeconds(in.cpu_seconds(), "cpu_seconds", &out->cpu_seconds, check);
  out->skipped = in.skipped();
  out->conflicts = in.conflicts();
  out->bytes_moved = in.bytes_moved();
  out->refused = in.refused();
}

void Put(const protocol::ServerHeartbeat& in, pb::ServerHeartbeat* out) {
  out->set_node(in.node.value);
  out->set_metrics(in.metrics);
  out->set_term(in.term);
  out->set_generation(in.generation.value);
  for (const auto& ledger : in.ledgers) Put(ledger, out->add_ledgers());
  Put(in.failed, out->mutable_failed());
  out->set_failure(in.failure.substr(0, Limits::kText));
  if (in.shard) Put(*in.shard, out->mutable_shard());
  out->set_leaving(in.leaving);
  Put(in.progress, out->mutable_progress());
  out->set_consecutive_rejected(in.consecutive_rejected);
  if (in.rejected) Put(*in.rejected, out->mutable_rejected());
  out->set_report(in.report);
  out->set_part(in.part);
  out->set_more(in.more);
  for (const auto& move : in.moves) Put(move, out->add_moves());
  Put(in.lost_replicas, out->mutable_lost_replicas());
  out->set_version(in.version);
  for (const auto& slice : in.traffic) {
    auto* t = out->add_traffic();
    t->set_slice(slice.slice.value);
    t->set_pushes(slice.pushes);
    t->set_bytes(slice.bytes);
  }
  Put(in.elector, out->mutable_elector());
}

void Take(const pb::ServerHeartbeat& in, protocol::ServerHeartbeat* out, Check* check) {
  out->node = NodeId(in.node());
  TakeText(in.metrics(), Limits::kName, "metrics", &out->metrics, check);
  out->term = in.term();
  out->generation = Generation(in.generation());
  if (!check->Count(in.ledgers_size(), Limits::kSlices, "ledgers")) return;
  for (const auto& ledger : in.ledgers()) Take(ledger, &out->ledgers.emplace_back(), check);
  Take(in.failed(), &out->failed, check);
  TakeText(in.failure(), Limits::kText, "failure", &out->failure, check);
  if (in.has_shard()) Take(in.shard(), &out->shard.emplace(), check);
  out->leaving = in.leaving();
  Take(in.progress(), &out->progress, check);
  out->consecutive_rejected = in.consecutive_rejected();
  if (in.has_rejected()) Take(in.rejected(), &out->rejected.emplace(), check);
  out->report = in.report();
  out->part = in.part();
  out->more = in.more();
  if (!check->Count(in.moves_size(), Limits::kMoves, "moves")) return;
  for (const auto& move : in.moves()) Take(move, &out->moves.emplace_back(), check);
  Take(in.lost_replicas(), &out->lost_replicas, check);
  out->version = in.version();
  if (!check->Count(in.traffic_size(), Limits::kSlices, "slices with traffic")) return;
  for (const auto& slice : in.traffic()) {
    if (!check->That(slice.slice() < Limits::kSlices, "traffic.slice", slice.slice())) return;
    out->traffic.push_back({SliceId(slice.slice()), slice.pushes(), slice.bytes()});
  }
  out->elector = Taken(in.elector());
}

void Put(const protocol::KeepAlive& in, pb::KeepAlive* out) {
  out->set_node(in.node.value);
  out->set_progress(in.progress);
  out->set_metrics(in.metrics);
  out->set_round_trip_ns(in.round_trip.count());
}

void Take(const pb::KeepAlive& in, protocol::KeepAlive* out, Check* check) {
  out->node = NodeId(in.node());
  out->progress = in.progress();
  TakeText(in.metrics(), Limits::kName, "metrics", &out->metrics, check);
  TakeDuration(in.round_trip_ns(), "round_trip_ns", &out->round_trip, check);
}

void Put(const protocol::BotsHeartbeat& in, pb::BotsHeartbeat* out) {
  out->set_node(in.node.value);
  out->set_metrics(in.metrics);
  out->set_term(in.term);
  out->set_published(in.published);
  out->set_done(in.done);
  out->set_cpu_seconds(in.cpu_seconds);
}

void Take(const pb::BotsHeartbeat& in, protocol::BotsHeartbeat* out, Check* check) {
  out->node = NodeId(in.node());
  TakeText(in.metrics(), Limits::kName, "metrics", &out->metrics, check);
  out->term = in.term();
  out->published = in.published();
  out->done = in.done();
  TakeSeconds(in.cpu_seconds(), "cpu_seconds", &out->cpu_seconds, check);
}

void Put(const protocol::FeedHeartbeat& in, pb::FeedHeartbeat* out) {
  out->set_node(in.node.value);
  out->set_metrics(in.metrics);
  out->set_term(in.term);
  out->set_requests(in.requests);
  out->set_bytes_sent(in.bytes_sent);
  out->set_leaving(in.leaving);
  out->set_cpu_seconds(in.cpu_seconds);
  for (const auto& report : in.publishers) {
    auto* r = out->add_publishers();
    r->set_partition(report.partition);
    r->set_assignment(report.assignment);
    if (report.published) r->set_published(*report.published);
    for (const auto& split : report.held) Put(split.cut, split.batches, r->add_held());
    r->set_rescored(report.rescored);
    Put(report.status, r->mutable_status());
  }
}

void Take(const pb::PublisherReport& in, protocol::PublisherReport* out, Check* check) {
  check->That(in.partition() < Limits::kPartitions, "publisher.partition", in.partition());
  out->partition = in.partition();
  out->assignment = in.assignment();
  if (in.has_published()) out->published = in.published();
  if (!check->Count(in.held_size(), protocol::PublisherReport::kMaxHeld, "splits with scores")) return;
  for (const auto& split : in.held()) {
    auto& held = out->held.emplace_back();
    Take(split, &held.cut, &held.batches, check);
    if (!check->status().ok()) return;
    check->That(held.cut.partition == out->partition, "partition of scores", held.cut.partition);
  }
  out->rescored = in.rescored();
  Take(in.status(), &out->status, check);
}

void Take(const pb::FeedHeartbeat& in, protocol::FeedHeartbeat* out, Check* check) {
  out->node = NodeId(in.node());
  TakeText(in.metrics(), Limits::kName, "metrics", &out->metrics, check);
  out->term = in.term();
  out->requests = in.requests();
  out->bytes_sent = in.bytes_sent();
  out->leaving = in.leaving();
  TakeSeconds(in.cpu_seconds(), "cpu_seconds", &out->cpu_seconds, check);
  if (!check->Count(in.publishers_size(), Limits::kPartitions, "publishers")) return;
  for (const auto& report : in.publishers()) {
    Take(report, &out->publishers.emplace_back(), check);
    if (!check->status().ok()) return;
  }
}

void Put(const protocol::ServeHeartbeat& in, pb::ServeHeartbeat* out) {
  out->set_node(in.node.value);
  out->set_term(in.term);
  out->set_generation(in.generation.value);
  out->set_leaving(in.leaving);
  out->set_metrics(in.metrics);
  auto* progress = out->mutable_progress();
  progress->set_rounds(in.progress.rounds);
  progress->set_changed(in.progress.changed);
  progress->set_stretched(in.progress.stretched);
  progress->set_bytes_in(in.progress.bytes_in);
  progress->set_retries(in.progress.retries);
  progress->set_interval_seconds(in.progress.interval_seconds);
  progress->set_cpu_seconds(in.progress.cpu_seconds);
}

void Take(const pb::ServeHeartbeat& in, protocol::ServeHeartbeat* out, Check* check) {
  out->node = NodeId(in.node());
  out->term = in.term();
  out->generation = Generation(in.generation());
  out->leaving = in.leaving();
  TakeText(in.metrics(), Limits::kName, "metrics", &out->metrics, check);
  const auto& progress = in.progress();
  out->progress.rounds = progress.rounds();
  out->progress.changed = progress.changed();
  out->progress.stretched = progress.stretched();
  out->progress.bytes_in = progress.bytes_in();
  out->progress.retries = progress.retries();
  TakeSeconds(progress.interval_seconds(), "interval_seconds", &out->progress.interval_seconds, check);
  TakeSeconds(progress.cpu_seconds(), "cpu_seconds", &out->progress.cpu_seconds, check);
}

void Take(const pb::AdminRequest& in, protocol::AdminRequest* out, Check* check) {
  if (check->That(pb::AdminRequest::Kind_IsValid(in.kind()), "admin.kind",
                  static_cast<uint64_t>(in.kind()))) {
    out->kind = protocol::AdminRequest::Kind(in.kind());
  }
  out->node = NodeId(in.node());
  if (in.has_workers()) out->workers = {in.workers().least(), in.workers().most()};
  if (in.has_servers()) out->servers = in.servers();
  TakeRole(in.role(), &out->role, check);
  out->index = in.index();
}

void Put(const protocol::AdminRequest& in, pb::AdminRequest* out) {
  out->set_kind(static_cast<pb::AdminRequest::Kind>(in.kind));
  out->set_node(in.node.value);
  if (in.workers) {
    out->mutable_workers()->set_least(in.workers->least);
    out->mutable_workers()->set_most(in.workers->most);
  }
  if (in.servers) out->set_servers(*in.servers);
  out->set_role(static_cast<pb::Role>(in.role));
  out->set_index(in.index);
}

void Put(const protocol::PoolRequest& in, pb::PoolRequest* out) {
  out->set_kind(static_cast<pb::PoolRequest::Kind>(in.kind));
  out->set_body(in.body);
}

void Take(const pb::PoolRequest& in, protocol::PoolRequest* out, Check* check) {
  if (check->That(pb::PoolRequest::Kind_IsValid(in.kind()), "pool.kind", static_cast<uint64_t>(in.kind())))
    out->kind = protocol::PoolRequest::Kind(in.kind());
  TakeText(in.body(), Limits::kDocument, "pool.body", &out->body, check);
}

void Put(const protocol::Promise& in, pb::Promise* out) {
  out->set_node(in.node.value);
  out->set_term(in.term);
  out->set_candidate(in.candidate);
  out->set_granted(in.granted);
  out->set_promised(in.promised);
  Put(in.coordinators, out->mutable_coordinators());
}

void Take(const pb::Promise& in, protocol::Promise* out, Check* check) {
  out->node = NodeId(in.node());
  out->term = in.term();
  out->candidate = in.candidate();
  out->granted = in.granted();
  out->promised = in.promised();
  Take(in.coordinators(), &out->coordinators, check);
}

void Put(const protocol::FollowRequest& in, pb::FollowRequest* out) {
  out->set_coordinator(in.coordinator);
  out->set_term(in.term);
  out->set_stream(in.stream);
  out->set_received(in.received);
  out->set_synced(in.synced);
  out->set_checkpoint(in.checkpoint);
}

void Put(const protocol::SpansRequest& in, pb::SpansRequest* out) {
  out->set_node(in.node.value);
  out->set_recording(in.recording);
  out->set_chunk(in.chunk);
  out->set_spans(std::string(AsText(in.spans)));
  out->set_last(in.last);
  Put(in.clock, out->mutable_clock());
  out->set_dropped(in.dropped);
}

void Take(const pb::SpansRequest& in, protocol::SpansRequest* out, Check* check) {
  out->node = NodeId(in.node());
  out->recording = in.recording();
  out->chunk = in.chunk();
  TakeBytes(in.spans(), Limits::kSpans, "spans", &out->spans, check);
  out->last = in.last();
  Take(in.clock(), &out->clock, check);
  out->dropped = in.dropped();
}

void Put(const protocol::TimelineRequest& in, pb::TimelineRequest* out) {
  out->set_kind(static_cast<pb::TimelineRequest::Kind>(in.kind));
  out->set_length_ns(in.length.count());
  out->set_recording(in.recording);
  out->set_part(in.part);
}

void Take(const pb::TimelineRequest& in, protocol::TimelineRequest* out, Check* check) {
  if (check->That(pb::TimelineRequest::Kind_IsValid(in.kind()), "timeline.kind",
                  static_cast<uint64_t>(in.kind())))
    out->kind = static_cast<protocol::TimelineRequest::Kind>(in.kind());
  TakeDuration(in.length_ns(), "timeline.length_ns", &out->length, check);
  out->recording = in.recording();
  out->part = in.part();
}

// Selects the oneof field of a struct.
struct PutKind {
  pb::Request* out;
  void operator()(const protocol::JoinRequest& r) const { Put(r, out->mutable_join()); }
  void operator()(const protocol::WorkerHeartbeat& r) const { Put(r, out->mutable_worker()); }
  void operator()(const protocol::ServerHeartbeat& r) const { Put(r, out->mutable_server()); }
  void operator()(const protocol::BotsHeartbeat& r) const { Put(r, out->mutable_bots()); }
  void operator()(const protocol::KeepAlive& r) const { Put(r, out->mutable_keep_alive()); }
  void operator()(const protocol::JobRequest& r) const { out->mutable_job()->set_version(r.version); }
  void operator()(const protocol::FeedHeartbeat& r) const { Put(r, out->mutable_feed()); }
  void operator()(const protocol::ServeHeartbeat& r) const { Put(r, out->mutable_serve()); }
  void operator()(const protocol::StatusRequest& r) const {
    out->mutable_status()->set_with_view(r.with_view);
  }
  void operator()(const protocol::AdminRequest& r) const { Put(r, out->mutable_admin()); }
  void operator()(const protocol::PoolRequest& r) const { Put(r, out->mutable_pool()); }
  void operator()(const protocol::Promise& r) const { Put(r, out->mutable_promise()); }
  void operator()(const protocol::FollowRequest& r) const { Put(r, out->mutable_follow()); }
  void operator()(const protocol::SpansRequest& r) const { Put(r, out->mutable_spans()); }
  void operator()(const protocol::TimelineRequest& r) const { Put(r, out->mutable_timeline()); }
};

}  // namespace

std::string Serialize(const protocol::ControlRequest& request) {
  pb::Request message;
  std::visit(PutKind{&message}, request);
  return message.SerializeAsString();
}

Result<protocol::ControlRequest> ParseRequest(std::string_view bytes) {
  pb::Request message;
  if (bytes.size() > kMaxMessageBytes ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status(Code::kInvalidArgument,
                  "not a control request: " + std::to_string(bytes.size()) + " bytes");
  }
  Check check;
  protocol::ControlRequest request;
  switch (message.kind_case()) {
    case pb::Request::kJoin:
      Take(message.join(), &request.emplace<protocol::JoinRequest>(), &check);
      break;
    case pb::Request::kWorker:
      Take(message.worker(), &request.emplace<protocol::WorkerHeartbeat>(), &check);
      break;
    case pb::Request::kServer:
      Take(message.server(), &request.emplace<protocol::ServerHeartbeat>(), &check);
      break;
    case pb::Request::kBots:
      Take(message.bots(), &request.emplace<protocol::BotsHeartbeat>(), &check);
      break;
    case pb::Request::kKeepAlive:
      Take(message.keep_alive(), &request.emplace<protocol::KeepAlive>(), &check);
      break;
    case pb::Request::kJob:
      TakeText(message.job().version(), Limits::kName, "version",
               &request.emplace<protocol::JobRequest>().version, &check);
      break;
    case pb::Request::kFeed:
      Take(message.feed(), &request.emplace<protocol::FeedHeartbeat>(), &check);
      break;
    case pb::Request::kServe:
      Take(message.serve(), &request.emplace<protocol::ServeHeartbeat>(), &check);
      break;
    case pb::Request::kStatus:
      request = protocol::StatusRequest{message.status().with_view()};
      break;
    case pb::Request::kPool:
      Take(message.pool(), &request.emplace<protocol::PoolRequest>(), &check);
      break;
    case pb::Request::kAdmin:
      Take(message.admin(), &request.emplace<protocol::AdminRequest>(), &check);
      break;
    case pb::Request::kPromise:
      Take(message.promise(), &request.emplace<protocol::Promise>(), &check);
      break;
    case pb::Request::kFollow: {
      const auto& in = message.follow();
      request = protocol::FollowRequest{in.coordinator(), in.term(),   in.stream(),
                                        in.received(),    in.synced(), in.checkpoint()};
      break;
    }
    case pb::Request::kSpans:
      Take(message.spans(), &request.emplace<protocol::SpansRequest>(), &check);
      break;
    case pb::Request::kTimeline:
      Take(message.timeline(), &request.emplace<protocol::TimelineRequest>(), &check);
      break;
    case pb::Request::KIND_NOT_SET:
      return Status(Code::kInvalidArgument, "a control request of unknown kind (from a newer version?)");
  }
  if (!check.status().ok()) return check.status().With("control request");
  return request;
}

}  // namespace leat::control

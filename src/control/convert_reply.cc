#include "control/convert.h"
#include "control/convert_parts.h"
#include "protocol/messages_data.h"

namespace leat::control {
namespace {

using leat::control::Put;
using leat::control::Take;

// Leaves room for the numbers of the following steps.
constexpr uint64_t kLastFirstStep = ~uint64_t{0} - protocol::Cut::kMaxBatches;

void Put(const protocol::JoinReply& in, pb::JoinReply* out) {
  Put(in.status, out->mutable_status());
  out->set_term(in.term);
  out->set_node(in.node.value);
  out->set_index(in.index);
  out->set_job(in.job);
  out->set_heartbeat_interval_ns(in.heartbeat_interval.count());
  out->set_heartbeat_timeout_ns(in.heartbeat_timeout.count());
  out->set_probe(in.probe);
  out->set_probe_content(in.probe_content);
  out->set_transfers(in.transfers);
}

void Take(const pb::JoinReply& in, protocol::JoinReply* out, Check* check) {
  Take(in.status(), &out->status, check);
  out->term = in.term();
  out->node = NodeId(in.node());
  out->index = in.index();
  TakeText(in.job(), Limits::kDocument, "job", &out->job, check);
  TakeDuration(in.heartbeat_interval_ns(), "heartbeat_interval_ns", &out->heartbeat_interval, check);
  TakeDuration(in.heartbeat_timeout_ns(), "heartbeat_timeout_ns", &out->heartbeat_timeout, check);
  TakeText(in.probe(), Limits::kPath, "probe", &out->probe, check);
  TakeText(in.probe_content(), Limits::kName, "probe_content", &out->probe_content, check);
  TakeText(in.transfers(), Limits::kName, "transfers", &out->transfers, check);
}

template <class Message>
void TakeRate(const Message& in, const char* name, float* out, Check* check) {
  if (!in.has_rate()) return;
  if (!protocol::ValidRate(in.rate())) check->Fail(std::string(name) + " is " + std::to_string(in.rate()));
  *out = in.rate();
}

void Put(const protocol::LabelRange& in, pb::LabelRange* out) {
  out->set_begin(in.begin);
  out->set_end(in.end);
}

void Take(const pb::LabelRange& in, protocol::LabelRange* out, Check* check) {
  check->That(in.begin() <= in.end(), "labels.begin with labels.end " + std::to_string(in.end()), in.begin());
  *out = {in.begin(), in.end()};
}

void Put(const protocol::Lease& in, pb::Lease* out) {
  out->set_id(in.id);
  Put(in.cut, in.missing, out->mutable_missing());
  out->set_first_step(in.first_step);
  out->set_lane(in.lane);
  out->set_width(in.width);
  out->set_needed(in.needed);
  Put(in.assigned, out->mutable_assigned());
  if (in.rate != 1) out->set_rate(in.rate);
  if (in.labels) Put(*in.labels, out->mutable_labels());
}

void Take(const pb::Lease& in, protocol::Lease* out, Check* check) {
  out->id = in.id();
  Take(in.missing(), &out->cut, &out->missing, check);
  const protocol::StepLane step_lane{in.first_step(), in.lane(), in.width(), in.needed()};
  check->That(step_lane.valid(),
              "lease.lane of " + std::to_string(step_lane.width) + " of which " +
                  std::to_string(step_lane.needed) + " are needed",
              step_lane.lane);
  check->That(step_lane.step <= kLastFirstStep, "lease.first_step", step_lane.step);
  out->first_step = step_lane.step;
  out->lane = step_lane.lane;
  out->width = step_lane.width;
  out->needed = step_lane.needed;
  TakeRate(in, "lease.rate", &out->rate, check);
  if (in.has_labels()) Take(in.labels(), &out->labels.emplace(), check);
  if (in.assigned().empty() || !check->status().ok()) return;
  Take(in.assigned(), out->cut, &out->assigned, check);
  if (!check->status().ok()) return;
  protocol::RunSet both = out->missing;
  both &= out->assigned;
  check->That(both == out->missing, "a lease with missing runs that are not assigned: lease.id", out->id);
}

void Put(const protocol::Group& in, pb::Group* out) {
  out->set_id(in.id);
  Put(in.members, out->mutable_members());
  out->set_decided(in.decided);
  out->set_step(in.step);
  out->set_holder(in.holder.value);
  Put(in.orders, out->mutable_orders());
}

void Take(const pb::Group& in, protocol::Group* out, Check* check) {
  out->id = in.id();
  Take(in.members(), &out->members, check);
  out->decided = in.decided();
  out->step = in.step();
  out->holder = NodeId(in.holder());
  Take(in.orders(), &out->orders, check);
}

void Put(const protocol::Round& in, pb::Round* out) {
  out->set_first_step(in.first_step);
  for (const auto& part : in.lanes) {
    Put(part.cut, part.assigned, out->add_lanes());
    if (part.labels) Put(*part.labels, out->add_labels());
  }
  if (in.rate != 1) out->set_rate(in.rate);
}

void Take(const pb::Round& in, protocol::Round* out, Check* check) {
  check->That(in.first_step() <= kLastFirstStep, "round.first_step", in.first_step());
  out->first_step = in.first_step();
  TakeRate(in, "round.rate", &out->rate, check);
  if (!check->Count(in.lanes_size(), Limits::kLanes, "lanes of a round")) return;
  check->That(in.lanes_size() > 0, "number of lanes of a round", 0);
  for (const auto& runs : in.lanes()) {
    auto& part = out->lanes.emplace_back();
    Take(runs, &part.cut, &part.assigned, check);
    const uint32_t count = part.assigned.count();
    check->That(count > 0 && count == out->lanes.front().assigned.count(), "number of runs of a lane", count);
    if (!check->status().ok()) return;
  }
  // All lanes have labels, or none.
  if (in.labels().empty()) return;
  if (!check->That(in.labels_size() == in.lanes_size(), "number of labels of a round",
                   static_cast<uint64_t>(in.labels_size()))) {
    return;
  }
  for (int i = 0; i < in.labels_size(); ++i)
    Take(in.labels(i), &out->lanes[static_cast<size_t>(i)].labels.emplace(), check);
}

// What replies to servers and workers say of the coordinator's term.
template <class In, class Out>
void PutOfTerm(const In& in, Out* out) {
  out->set_probe(in.probe);
  out->set_probe_content(in.probe_content);
  if (in.coordinators) Put(*in.coordinators, out->mutable_coordinators());
  out->set_waiting(in.waiting);
  if (in.record) Put(*in.record, out->mutable_record());
}

template <class In, class Out>
void TakeOfTerm(const In& in, Out* out, Check* check) {
  TakeText(in.probe(), Limits::kPath, "probe", &out->probe, check);
  TakeText(in.probe_content(), Limits::kName, "probe_content", &out->probe_content, check);
  if (in.has_coordinators()) Take(in.coordinators(), &out->coordinators.emplace(), check);
  out->waiting = in.waiting();
  if (in.has_record()) Take(in.record(), &out->record.emplace(), check);
}

void Put(const protocol::WorkerHeartbeatReply& in, pb::WorkerHeartbeatReply* out) {
  out->set_term(in.term);
  out->set_evicted(in.evicted);
  out->set_stop(in.stop);
  out->set_drain(in.drain);
  if (in.view) Put(*in.view, out->mutable_view());
  for (const auto& lease : in.leases) Put(lease, out->add_leases());
  Put(in.revoked, out->mutable_revoked());
  if (in.group) Put(*in.group, out->mutable_group());
  for (const auto& round : in.rounds) Put(round, out->add_rounds());
  Put(in.start, out->mutable_start());
  if (in.checkpoint) Put(*in.checkpoint, out->mutable_checkpoint());
  for (const auto& lease : in.rescores) Put(lease, out->add_rescores());
  out->set_transfers(in.transfers);
  PutOfTerm(in, out);
  out->set_gradients_wanted(in.gradients_wanted);
}

void TakeLeases(const google::protobuf::RepeatedPtrField<pb::Lease>& in, std::vector<protocol::Lease>* out,
                Check* check) {
  if (!check->Count(in.size(), Limits::kLeases, "leases")) return;
  for (const auto& lease : in) {
    Take(lease, &out->emplace_back(), check);
    if (!check->status().ok()) return;
  }
}

void Take(const pb::WorkerHeartbeatReply& in, protocol::WorkerHeartbeatReply* out, Check* check) {
  out->term = in.term();
  out->evicted = in.evicted();
  out->stop = in.stop();
  out->drain = in.drain();
  if (in.has_view()) Take(in.view(), &out->view.emplace(), check);
  TakeLeases(in.leases(), &out->leases, check);
  TakeLeases(in.rescores(), &out->rescores, check);
  if (!check->status().ok()) return;
  Take(in.revoked(), Limits::kLeases, "revoked leases", &out->revoked, check);
  if (in.has_group()) Take(in.group(), &out->group.emplace(), check);
  if (!check->Count(in.rounds_size(), Limits::kRounds, "rounds")) return;
  for (const auto& round : in.rounds()) {
    Take(round, &out->rounds.emplace_back(), check);
    if (!check->status().ok()) return;
  }
  Take(in.start(), &out->start, check);
  if (in.has_checkpoint()) Take(in.checkpoint(), &out->checkpoint.emplace(), check);
  TakeText(in.transfers(), Limits::kName, "transfers", &out->transfers, check);
  TakeOfTerm(in, out, check);
  out->gradients_wanted = in.gradients_wanted();
}

template <class Message>
void PutStandbys(const std::vector<std::string>& in, Message* out) {
  for (const std::string& address : in) out->add_standbys(address);
}

template <class Message>
void TakeStandbys(const Message& in, std::vector<std::string>* out, Check* check) {
  if (!check->Count(in.standbys_size(), Limits::kMembers, "standbys")) return;
  for (const std::string& address : in.standbys())
    TakeText(address, Limits::kName, "standby", &out->emplace_back(), check);
}

void Put(const protocol::BotsHeartbeatReply& in, pb::BotsHeartbeatReply* out) {
  out->set_evicted(in.evicted);
  out->set_stop(in.stop);
  out->set_term(in.term);
  PutStandbys(in.standbys, out);
}

void Take(const pb::BotsHeartbeatReply& in, protocol::BotsHeartbeatReply* out, Check* check) {
  out->evicted = in.evicted();
  out->stop = in.stop();
  out->term = in.term();
  TakeStandbys(in, &out->standbys, check);
}

void Put(const protocol::KeepAliveReply& in, pb::KeepAliveReply* out) {
  out->set_evicted(in.evicted);
  out->set_stop(in.stop);
  PutStandbys(in.standbys, out);
  out->set_known(in.known);
}

void Take(const pb::KeepAliveReply& in, protocol::KeepAliveReply* out, Check* check) {
  out->evicted = in.evicted();
  out->stop = in.stop();
  out->known = in.known();
  TakeStandbys(in, &out->standbys, check);
}

void Put(const protocol::FeedHeartbeatReply& in, pb::FeedHeartbeatReply* out) {
  out->set_term(in.term);
  PutStandbys(in.standbys, out);
  out->set_evicted(in.evicted);
  out->set_stop(in.stop);
  out->set_drain(in.drain);
  for (const auto& order : in.publish) {
    auto* o = out->add_publish();
    o->set_partition(order.partition);
    o->set_group(order.group);
    o->set_assignment(order.assignment);
    o->set_start(order.start);
    o->set_fresh(order.fresh);
  }
}

void Take(const pb::FeedHeartbeatReply& in, protocol::FeedHeartbeatReply* out, Check* check) {
  out->term = in.term();
  TakeStandbys(in, &out->standbys, check);
  out->evicted = in.evicted();
  out->stop = in.stop();
  out->drain = in.drain();
  if (!check->Count(in.publish_size(), Limits::kPartitions, "partitions to publish")) return;
  for (const auto& order : in.publish()) {
    check->That(order.partition() < Limits::kPartitions, "publish.partition", order.partition());
    check->That(order.group() < Limits::kPartitions, "publish.group", order.group());
    out->publish.push_back(
        {order.partition(), order.group(), order.assignment(), order.start(), order.fresh()});
  }
}

void Put(const protocol::ServeHeartbeatReply& in, pb::ServeHeartbeatReply* out) {
  out->set_term(in.term);
  out->set_evicted(in.evicted);
  out->set_stop(in.stop);
  out->set_drain(in.drain);
  if (in.view) Put(*in.view, out->mutable_view());
}

void Take(const pb::ServeHeartbeatReply& in, protocol::ServeHeartbeatReply* out, Check* check) {
  out->term = in.term();
  out->evicted = in.evicted();
  out->stop = in.stop();
  out->drain = in.drain();
  if (in.has_view()) Take(in.view(), &out->view.emplace(), check);
}

void Put(const protocol::JobReply& in, pb::JobReply* out) {
  Put(in.status, out->mutable_status());
  out->set_job(in.job);
  for (const std::string& feed : in.feeds) out->add_feeds(feed);
}

void Take(const pb::JobReply& in, protocol::JobReply* out, Check* check) {
  Take(in.status(), &out->status, check);
  TakeText(in.job(), Limits::kDocument, "job", &out->job, check);
  if (!check->Count(in.feeds_size(), Limits::kMembers, "feeds")) return;
  for (const std::string& feed : in.feeds())
    TakeText(feed, Limits::kName, "feed", &out->feeds.emplace_back(), check);
}

void Put(const protocol::ServerHeartbeatReply& in, pb::ServerHeartbeatReply* out) {
  out->set_term(in.term);
  out->set_evicted(in.evicted);
  out->set_stop(in.stop);
  if (in.view) Put(*in.view, out->mutable_view());
  Put(in.start, out->mutable_start());
  Put(in.orders, out->mutable_orders());
  if (in.checkpoint) Put(*in.checkpoint, out->mutable_checkpoint());
  out->set_report(in.report);
  out->set_part(in.part);
  out->set_transfers(in.transfers);
  for (const auto& move : in.moves) Put(move, out->add_moves());
  Put(in.incoming, out->mutable_incoming());
  Put(in.replicated, out->mutable_replicated());
  Put(in.replicas, out->mutable_replicas());
  out->set_drain(in.drain);
  PutOfTerm(in, out);
}

void Take(const pb::ServerHeartbeatReply& in, protocol::ServerHeartbeatReply* out, Check* check) {
  out->term = in.term();
  out->evicted = in.evicted();
  out->stop = in.stop();
  if (in.has_view()) Take(in.view(), &out->view.emplace(), check);
  Take(in.start(), &out->start, check);
  Take(in.orders(), &out->orders, check);
  if (in.has_checkpoint()) Take(in.checkpoint(), &out->checkpoint.emplace(), check);
  out->report = in.report();
  out->part = in.part();
  TakeText(in.transfers(), Limits::kName, "transfers", &out->transfers, check);
  out->drain = in.drain();
  Take(in.incoming(), Limits::kMoves, "incoming moves", &out->incoming, check);
  Take(in.replicated(), &out->replicated, check);
  Take(in.replicas(), &out->replicas, check);
  if (!check->Count(in.moves_size(), Limits::kMoves, "moves")) return;
  for (const auto& move : in.moves()) Take(move, &out->moves.emplace_back(), check);
  TakeOfTerm(in, out, check);
}

void Put(const protocol::FollowReply& in, pb::FollowReply* out) {
  out->set_term(in.term);
  out->set_stream(in.stream);
  out->set_snapshot(in.snapshot);
  out->set_offset(in.offset);
  out->set_bytes(std::string(AsText(in.bytes)));
  out->set_agreed(in.agreed);
  out->set_in_set(in.in_set);
  out->set_electable(in.electable);
  out->set_checkpoint(in.checkpoint);
  out->set_oldest_kept(in.oldest_kept);
  Put(in.watermark, out->mutable_watermark());
  out->set_transfers(in.transfers);
}

void Take(const pb::FollowReply& in, protocol::FollowReply* out, Check* check) {
  out->term = in.term();
  out->stream = in.stream();
  out->snapshot = in.snapshot();
  out->offset = in.offset();
  TakeBytes(in.bytes(), protocol::FollowReply::kMaxBytes, "bytes", &out->bytes, check);
  out->agreed = in.agreed();
  out->in_set = in.in_set();
  out->electable = in.electable();
  out->checkpoint = in.checkpoint();
  out->oldest_kept = in.oldest_kept();
  Take(in.watermark(), &out->watermark, check);
  TakeText(in.transfers(), Limits::kName, "transfers", &out->transfers, check);
}

void Take(const pb::Refusal& in, protocol::Refusal* out, Check* check) {
  Take(in.status(), &out->status, check);
  check->That(!out->status.ok(), "a refusal without an error: code", 0);
}

void Put(const protocol::SpansReply& in, pb::SpansReply* out) {
  Put(in.status, out->mutable_status());
  out->set_now_ns(in.now.count());
}

void Take(const pb::SpansReply& in, protocol::SpansReply* out, Check* check) {
  Take(in.status(), &out->status, check);
  TakeTime(in.now_ns(), "now_ns", &out->now, check);
}

void Put(const protocol::TimelineProcess& in, pb::TimelineProcess* out) {
  out->set_node(in.node.value);
  out->set_name(in.name);
  out->set_host(in.host);
  out->set_pid(in.pid);
  Put(in.clock, out->mutable_clock());
  out->set_dropped(in.dropped);
  out->set_missing(in.missing);
}

void Take(const pb::TimelineProcess& in, protocol::TimelineProcess* out, Check* check) {
  out->node = NodeId(in.node());
  TakeText(in.name(), Limits::kName, "process.name", &out->name, check);
  TakeText(in.host(), Limits::kName, "process.host", &out->host, check);
  out->pid = in.pid();
  Take(in.clock(), &out->clock, check);
  out->dropped = in.dropped();
  TakeText(in.missing(), Limits::kName, "process.missing", &out->missing, check);
}

void Put(const protocol::TimelineReply& in, pb::TimelineReply* out) {
  Put(in.status, out->mutable_status());
  out->set_recording(in.recording);
  out->set_left_ns(in.left.count());
  out->set_begin_ns(in.begin.count());
  out->set_end_ns(in.end.count());
  out->set_parts(in.parts);
  for (const auto& process : in.processes) Put(process, out->add_processes());
  out->set_node(in.node.value);
  out->set_spans(std::string(AsText(in.spans)));
}

void Take(const pb::TimelineReply& in, protocol::TimelineReply* out, Check* check) {
  Take(in.status(), &out->status, check);
  out->recording = in.recording();
  TakeDuration(in.left_ns(), "left_ns", &out->left, check);
  TakeTime(in.begin_ns(), "begin_ns", &out->begin, check);
  TakeTime(in.end_ns(), "end_ns", &out->end, check);
  out->parts = in.parts();
  if (!check->Count(in.processes_size(), Limits::kMembers, "processes")) return;
  for (const auto& process : in.processes()) Take(process, &out->processes.emplace_back(), check);
  out->node = NodeId(in.node());
  TakeBytes(in.spans(), Limits::kSpans, "spans", &out->spans, check);
}

// Selects the oneof field of a struct.
struct PutKind {
  pb::Reply* out;
  void operator()(const protocol::Refusal& r) const {
    Put(r.status, out->mutable_refusal()->mutable_status());
  }
  void operator()(const protocol::JoinReply& r) const { Put(r, out->mutable_join()); }
  void operator()(const protocol::WorkerHeartbeatReply& r) const { Put(r, out->mutable_worker()); }
  void operator()(const protocol::ServerHeartbeatReply& r) const { Put(r, out->mutable_server()); }
  void operator()(const protocol::BotsHeartbeatReply& r) const { Put(r, out->mutable_bots()); }
  void operator()(const protocol::KeepAliveReply& r) const { Put(r, out->mutable_keep_alive()); }
  void operator()(const protocol::JobReply& r) const { Put(r, out->mutable_job()); }
  void operator()(const protocol::FeedHeartbeatReply& r) const { Put(r, out->mutable_feed()); }
  void operator()(const protocol::ServeHeartbeatReply& r) const { Put(r, out->mutable_serve()); }
  void operator()(const protocol::PromiseReply& r) const { out->mutable_promise()->set_term(r.term); }
  void operator()(const protocol::FollowReply& r) const { Put(r, out->mutable_follow()); }
  void operator()(const protocol::Candidacy& r) const {
    out->mutable_candidacy()->set_term(r.term);
    out->mutable_candidacy()->set_candidate(r.candidate);
    Put(r.coordinators, out->mutable_candidacy()->mutable_coordinators());
  }
  void operator()(const protocol::SpansReply& r) const { Put(r, out->mutable_spans()); }
  void operator()(const protocol::TimelineReply& r) const { Put(r, out->mutable_timeline()); }
  void operator()(const protocol::StatusReply& r) const { out->mutable_status()->set_json(r.json); }
  void operator()(const protocol::AdminReply& r) const {
    Put(r.status, out->mutable_admin()->mutable_status());
  }
  void operator()(const protocol::PoolReply& r) const {
    Put(r.status, out->mutable_pool()->mutable_status());
    out->mutable_pool()->set_body(r.body);
  }
};

}  // namespace

std::string Serialize(const protocol::ControlReply& reply) {
  pb::Reply message;
  std::visit(PutKind{&message}, reply);
  return message.SerializeAsString();
}

Result<protocol::ControlReply> ParseReply(std::string_view bytes) {
  pb::Reply message;
  if (bytes.size() > kMaxMessageBytes ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status(Code::kInvalidArgument, "not a control reply: " + std::to_string(bytes.size()) + " bytes");
  }
  Check check;
  protocol::ControlReply reply;
  switch (message.kind_case()) {
    case pb::Reply::kRefusal:
      Take(message.refusal(), &reply.emplace<protocol::Refusal>(), &check);
      break;
    case pb::Reply::kJoin:
      Take(message.join(), &reply.emplace<protocol::JoinReply>(), &check);
      break;
    case pb::Reply::kWorker:
      Take(message.worker(), &reply.emplace<protocol::WorkerHeartbeatReply>(), &check);
      break;
    case pb::Reply::kServer:
      Take(message.server(), &reply.emplace<protocol::ServerHeartbeatReply>(), &check);
      break;
    case pb::Reply::kBots:
      Take(message.bots(), &reply.emplace<protocol::BotsHeartbeatReply>(), &check);
      break;
    case pb::Reply::kKeepAlive:
      Take(message.keep_alive(), &reply.emplace<protocol::KeepAliveReply>(), &check);
      break;
    case pb::Reply::kJob:
      Take(message.job(), &reply.emplace<protocol::JobReply>(), &check);
      break;
    case pb::Reply::kFeed:
      Take(message.feed(), &reply.emplace<protocol::FeedHeartbeatReply>(), &check);
      break;
    case pb::Reply::kServe:
      Take(message.serve(), &reply.emplace<protocol::ServeHeartbeatReply>(), &check);
      break;
    case pb::Reply::kStatus:
      TakeText(message.status().json(), Limits::kDocument, "status",
               &reply.emplace<protocol::StatusReply>().json, &check);
      break;
    case pb::Reply::kAdmin:
      Take(message.admin().status(), &reply.emplace<protocol::AdminReply>().status, &check);
      break;
    case pb::Reply::kPool: {
      auto& pool = reply.emplace<protocol::PoolReply>();
      Take(message.pool().status(), &pool.status, &check);
      TakeText(message.pool().body(), Limits::kDocument, "pool.body", &pool.body, &check);
      break;
    }
    case pb::Reply::kPromise:
      reply = protocol::PromiseReply{message.promise().term()};
      break;
    case pb::Reply::kFollow:
      Take(message.follow(), &reply.emplace<protocol::FollowReply>(), &check);
      break;
    case pb::Reply::kCandidacy: {
      auto& candidacy = reply.emplace<protocol::Candidacy>();
      candidacy.term = message.candidacy().term();
      candidacy.candidate = message.candidacy().candidate();
      Take(message.candidacy().coordinators(), &candidacy.coordinators, &check);
      break;
    }
    case pb::Reply::kSpans:
      Take(message.spans(), &reply.emplace<protocol::SpansReply>(), &check);
      break;
    case pb::Reply::kTimeline:
      Take(message.timeline(), &reply.emplace<protocol::TimelineReply>(), &check);
      break;
    case pb::Reply::KIND_NOT_SET:
      return Status(Code::kInvalidArgument, "a control reply of unknown kind (from a newer version?)");
  }
  if (!check.status().ok()) return check.status().With("control reply");
  return reply;
}

}  // namespace leat::control

#include "run/roles/coordinator_role.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <variant>

#include "base/exit_status.h"
#include "base/log.h"
#include "base/metrics/metrics.h"
#include "base/path/absolute_path.h"
#include "job/bucket.h"
#include "job/input/readable.h"
#include "job/input/trained_files.h"
#include "job/resume.h"
#include "job/share_layout.h"
#include "net/address.h"
#include "net/frames/transfer.h"
#include "net/loop.h"
#include "net/rpc/server.h"
#include "net/security/private_file.h"
#include "net/tcp/tcp.h"
#include "run/launcher/signals.h"
#include "run/launcher/start/await_healing.h"
#include "run/roles/autoscale/scaling.h"
#include "run/roles/background_thread.h"
#include "run/roles/commit/commit_queue.h"
#include "run/roles/commit/write_ahead.h"
#include "run/roles/faults/kill_point.h"
#include "run/roles/feed/feed_thread.h"
#include "run/roles/feed/model_files.h"
#include "run/roles/input/coordinator_streams.h"
#include "run/roles/input/fingerprints.h"
#include "run/roles/input/resumed_stream.h"
#include "run/roles/predictions/publisher_service.h"
#include "run/roles/role.h"
#include "run/roles/shards/shard_service.h"
#include "run/roles/standby/election.h"
#include "run/roles/standby/replicator.h"
#include "show/history/recorder.h"
#include "show/report/progress.h"
#include "show/tensorboard/event_file.h"
#include "show/tensorboard/job_graph.h"
#include "show/tensorboard/run_writer.h"
#include "show/timeline/collector.h"
#include "storage/checkpoint/bucket/bucket.h"
#include "storage/checkpoint/safetensors.h"
#include "stream/dead_letters.h"

namespace leat::roles {
namespace {

// The pause between two looks at the stream: the first while it grows; it doubles, to the second, while
// nothing changes.
constexpr Duration kStreamPoll = std::chrono::milliseconds(50);
constexpr Duration kQuietStreamPoll = std::chrono::milliseconds(300);
// A wait that lasts for so long is logged.
constexpr Duration kWaitIsSaid = std::chrono::seconds(1);
// A stream that cannot be asked for so long is in the status.
constexpr Duration kStreamAway = std::chrono::seconds(5);
constexpr Duration kStatusInterval = std::chrono::milliseconds(100);
// How long the end waits for standbys and members that are gone.
constexpr Duration kEndWait = std::chrono::seconds(10);
constexpr Duration kAsk = std::chrono::seconds(3);
// From one worker's gradients to the next, and for the answer to the question.
constexpr Duration kGradientsPause = std::chrono::seconds(10);
// At the end of the job, for a disk that TensorBoard's files are on.
constexpr Duration kLastPoints = std::chrono::seconds(5);
// At the end, for a disk that is busy.
constexpr Duration kLastRecord = std::chrono::seconds(2);
// For a former coordinator's process to end that was killed, and between two looks.
constexpr Duration kFormerEnds = std::chrono::seconds(3);
constexpr Duration kFormerPause = std::chrono::milliseconds(50);
// Time limit of a coordinator's request to the bucket.
constexpr Duration kBucketDeadline = std::chrono::seconds(60);

// Null: the job's checkpoints are in its directory alone.
Result<std::unique_ptr<checkpoint::Bucket>> MakeBucket(const job::Job& job, uint64_t term,
                                                       observe::RoleMetrics* metrics) {
  if (!job.checkpoint_to) return std::unique_ptr<checkpoint::Bucket>();
  object_store::StoreOptions options;
  options.retries.deadline = kBucketDeadline;
  if (metrics != nullptr) options.metrics = &metrics->registry();
  LEAT_ASSIGN_OR_RETURN(auto store, object_store::OpenS3(*job.checkpoint_to, options));
  std::string owner = std::to_string(term) + " " + net::RandomHex(16) + "\n";
  return std::make_unique<checkpoint::Bucket>(std::move(store), protocol::NumberOf(term), std::move(owner));
}

std::string OnHostOf(const std::string& address, uint16_t port) {
  return std::string(net::HostOf(address)) + ":" + std::to_string(port);
}

// A line about the partitions that cannot be asked; empty: all can.
std::string Unasked(const std::vector<stream::PartitionRange>& ranges) {
  constexpr size_t kNamed = 8;
  std::string names, why;
  size_t count = 0;
  for (const auto& range : ranges) {
    if (range.unasked.empty()) continue;
    if (count++ < kNamed) names += (names.empty() ? "" : ", ") + std::to_string(range.partition);
    if (why.empty()) why = range.unasked;
  }
  if (count == 0) return "";
  return "nothing new is known of " + std::to_string(count) + " of " + std::to_string(ranges.size()) +
         " partitions (" + names + (count > kNamed ? ", …" : "") + "): " + why;
}

// Warnings about a placement that puts too much on one server.
std::vector<std::string> Warnings(const job::Job& job) {
  return job.servers > 0 ? job.PlacementPlan().warnings : std::vector<std::string>();
}

report::WorkerShares::Options Shares(const job::Job& job) {
  return {.layout = job::ShareLayoutOf(job.schema, *job.model),
          .window = job.metrics_window,
          .strategy = job.strategy};
}

// Null: workers have them.
std::shared_ptr<const protocol::SliceTable> SlicesOnServers(const job::Job& job) {
  return job.servers > 0 ? std::make_shared<const protocol::SliceTable>(job.Slices()) : nullptr;
}

// The writer of TensorBoard's files; null if nobody has asked for it. Throws for errors of the user.
std::unique_ptr<tensorboard::RunWriter> StartTensorboard(const job::Job& job,
                                                         const CoordinatorOptions& options) {
  if (options.tensorboard.empty()) return nullptr;
  namespace fs = std::filesystem;
  const fs::path directory = AbsolutePathOrThrow(job.directory);
  const auto name = (directory / "").lexically_normal().parent_path().filename();
  const fs::path folder = AbsolutePathOrThrow(options.tensorboard);
  auto file = tensorboard::EventFile::Create((folder / name).string(), net::HostName(), options.resume);
  if (!file.ok()) Throw(file.status().With("--tensorboard"));
  spdlog::info("tensorboard: {}", file->path());
  return std::make_unique<tensorboard::RunWriter>(
      tensorboard::RunWriter::Options{
          .make_graph =
              [model = job.model, batch = job.batch_size,
               optimizer = optim::Name(job.optimizer.kind)](const auto& placement) {
                return tensorboard::JobGraph(model->Build(batch), model->variables(), placement, optimizer);
              },
          .table = job.Slices()},
      [to = std::make_shared<tensorboard::EventFile>(std::move(*file))](const auto& events) {
        return to->Append(events);
      });
}

// How the journal goes to standbys with directories of their own.
struct Replication {
  protocol::ReplicationConfig config;
  protocol::Electorate electorate;
};

Result<Replication> MakeReplication(const job::Job& job, const checkpoint::Store& store, bool elected,
                                    const std::vector<protocol::JournalRecord>& journal,
                                    const std::vector<NodeId>& electors) {
  Replication made{{.term = store.term(), .elected = elected},
                   protocol::Electorate(protocol::ElectorRole(job.strategy))};
  LEAT_ASSIGN_OR_RETURN(made.config.coordinator, checkpoint::CoordinatorNumber(store.directory()));
  for (const auto& record : journal) {
    made.electorate.OnRecord(0, record);
    made.config.marked |= std::holds_alternative<protocol::JournalAgreed>(record);
  }
  made.electorate.OnAgreedElectors(electors);
  return made;
}

// The shell around protocol::Coordinator. It runs on the loop's thread. Files are written, synced and removed
// on a background thread, in the order of the actions.
class CoordinatorRole {
 public:
  ~CoordinatorRole() { background_.End(); }
  CoordinatorRole(const job::Job& job, const CoordinatorOptions& options,
                  std::unique_ptr<checkpoint::Store> store, protocol::RecoveredState restored,
                  CoordinatorStreams streams, PublisherService* publisher, protocol::CoordinatorConfig config,
                  Replication replication, std::unique_ptr<tensorboard::RunWriter> tensorboard,
                  std::unique_ptr<checkpoint::Bucket> bucket)
      : metrics_(options.metrics != nullptr ? options.metrics->registry() : own_metrics_),
        job_(job),
        options_(options),
        store_(std::move(store)),
        bucket_(std::move(bucket)),
        streams_(std::move(streams)),
        publisher_(publisher),
        progress_({.job = job.name,
                   .task = job.model->task(),
                   .labels = job.model->labels(),
                   .truth = job.schema.has_truth(),
                   .window = job.metrics_window,
                   .fading = job.fading,
                   .drift = job.drift,
                   .strategy = std::string(protocol::Name(job.strategy.kind)),
                   .epochs = job.stream.epochs,
                   .warnings = Warnings(job),
                   .directory = job.directory,
                   .metrics = options.metrics != nullptr ? options.metrics->address() : "",
                   .dashboard = options.dashboard,
                   .shares = Shares(job),
                   .table = SlicesOnServers(job),
                   .optimizer = job.optimizer}),
        epochs_(job.stream.epochs),
        partitions_(config.partitions),
        restored_(restored.manifest),
        scaling_(loop_, job.autoscale, job.name, metrics_, options.scaler.get(), job.servers == 0),
        fingerprints_(restored_ ? restored_->fingerprints : std::vector<protocol::Fingerprint>()),
        machine_(std::move(config), std::move(restored)),
        kill_point_(job.debug, job.directory),
        queue_(
            loop_, background_,
            [this](std::span<const protocol::JournalRecord> records) {
              return WriteAhead(streams_.for_background(), *store_, records);
            },
            [this](protocol::CoordinatorAction& action) {
              if (!ended_) std::visit([this](auto& a) { Act(a); }, action);
            },
            [this](const Status& why) { Replaced(why); },
            {.publish =
                 [this](std::span<const protocol::JournalRecord> records) {
                   return replicator_->Publish(records);
                 },
             .agreed = [this] { return replicator_->agreed(); }}),
        replication_(std::move(replication)),
        tensorboard_(std::move(tensorboard)),
        monitor_(options.monitor != nullptr ? options.monitor : std::make_shared<observe::JobMonitor>()) {}

  Status Run() {
    auto server = control::ControlServer::Start(
        options_.listen, options_.token,
        [this](protocol::ControlRequest request, std::function<void(protocol::ControlReply)> reply) {
          loop_.Post([this, request = std::move(request), reply = std::move(reply)]() mutable {
            OnRequest(std::move(request), std::move(reply));
          });
        },
        control::ControlServer::Limits(), options_.tls);
    if (!server.ok()) return server.status();
    LEAT_ASSIGN_OR_RETURN(const std::string address,
                          net::AdvertisedAddress(options_.advertise, (*server)->address()));
    LEAT_RETURN_IF_ERROR(StartShardService());
    StartReplicator();
    // The directory is a job's from here on. A start that fails before can be repeated.
    LEAT_RETURN_IF_ERROR(store_->WriteJob(job_.config.ToYaml()));
    spdlog::info("coordinator of job '{}' serves on {} in term {}", job_.name, address,
                 protocol::NumberOf(store_->term()));
    if (options_.metrics != nullptr) spdlog::info("metrics at {}", options_.metrics->address());
    if (options_.scaler != nullptr)
      spdlog::info("KEDA is told at {} how many workers the job wants", options_.scaler->address());
    for (const auto& joined : machine_.taken_over()) {
      protocol::JoinRequest known;
      known.role = joined.member.role;
      known.host = joined.host;
      known.pid = joined.pid;
      progress_.OnJoin(loop_.Now(), joined.member.node, known);
    }
    if (!machine_.taken_over().empty())
      spdlog::info("continues with {} members of the former coordinator", machine_.taken_over().size());
    for (const auto& warning : Warnings(job_)) spdlog::warn("{}", warning);
    if (options_.on_ready) options_.on_ready(address);
    launcher::SignalWatch signals([this](int) {
      loop_.Post(
          [this] { OnRequest(protocol::AdminRequest{protocol::AdminRequest::Kind::kStop}, [](auto) {}); });
    });
    // An elected coordinator says nothing of its journal before a majority of the members knows it.
    if (!replicator_->founded()) Do({protocol::ConfirmTerm{}});
    record_thread_.Post([this] { history_.emplace(store_->directory(), monitor_); });
    Poll();
    Tick();
    ShowStatus();
    // The coordinator's loop runs no kernels.
    if (options_.metrics != nullptr)
      options_.metrics->liveness().Watch(loop_.Now(), [] { return uint64_t{0}; });
    loop_.Run();
    if (options_.metrics != nullptr) {
      options_.metrics->liveness().Unwatch();
      options_.metrics->status().Set(nullptr);
    }
    if (bucket_ != nullptr) bucket_->store().Abort();
    for (const auto& client : streams_.clients) client->Abort();
    // The directory is another coordinator's.
    if (outcome_.code() == Code::kStale) return outcome_;
    WriteSummary();
    FinishRecord();
    if (tensorboard_ != nullptr) tensorboard_->Finish(loop_.Now(), summary_, kLastPoints);
    return outcome_;
  }

 private:
  // To those who look at the metrics.
  void ShowStatus() {
    if (options_.metrics == nullptr) return;
    options_.metrics->status().Set([this](std::function<void(report::JobStatus)> done) {
      loop_.Post([this, done = std::move(done)] { done(Shown(loop_.Now())); });
    });
  }

  // For roles on hosts that do not see the job's directory.
  Status StartShardService() {
    // Limit for a checkpoint in which every slice is saved twice, because it moves while it is made.
    const auto slots =
        std::max(optim::SlotNames(job_.ServerOptimizer()).size(), optim::SlotNames(job_.optimizer).size());
    uint64_t bytes = checkpoint::SafetensorsHeader::kMaxBytes * 16;
    for (const auto& slice : job_.Slices().slices)
      bytes += 2 * slice.elements() * sizeof(float) * (1 + slots);
    const net::TransportOptions transport{
        .token = options_.token, .port = wire::TransferPort(), .tls = options_.tls, .metrics = &metrics_};
    LEAT_ASSIGN_OR_RETURN(shard_service_,
                          ShardService::Start({.directory = store_->directory(),
                                               .listen = OnHostOf(options_.listen, options_.transfer_port),
                                               .advertise = options_.advertise,
                                               .max_bytes = bytes,
                                               .make_transport = [transport](net::Loop& loop) {
                                                 return net::MakeTcpTransport(loop, transport);
                                               }}));
    return restored_ ? shard_service_->OnComplete(restored_->directory, *restored_) : Status();
  }

  void StartReplicator() {
    protocol::JoinReply joined;
    shard_service_->Fill(&joined);
    replicator_.emplace(
        loop_, background_, *store_,
        Replicator::Options{
            .config = replication_.config,
            .electorate = replication_.electorate,
            .checkpoint = restored_ ? restored_->id : 0,
            .transfers = joined.transfers,
            .journal =
                [this](protocol::JournalAgreed record) { Do({protocol::AppendJournal{std::move(record)}}); },
            .on_agreed = [this] { queue_.Resume(); },
            .on_replaced = [this](const Status& why) { Replaced(why); },
            .drop = [this](const protocol::DropCheckpoints& what) { Drop(what); },
            .idle = [this] { return queue_.empty(); }});
  }

  void OnRequest(protocol::ControlRequest request, std::function<void(protocol::ControlReply)> reply) {
    const Time now = loop_.Now();
    if (replicator_->Take(request, reply)) return;
    if (std::holds_alternative<protocol::StatusRequest>(request)) {
      reply(protocol::StatusReply{report::ToJson(Shown(now))});
      return;
    }
    if (const auto* spans = std::get_if<protocol::SpansRequest>(&request)) {
      reply(collector_.OnSpans(now, *spans));
      return;
    }
    if (const auto* timeline = std::get_if<protocol::TimelineRequest>(&request)) {
      reply(OnTimeline(now, *timeline));
      return;
    }
    if (const auto* admin = std::get_if<protocol::AdminRequest>(&request);
        admin != nullptr && admin->kind == protocol::AdminRequest::Kind::kNodeLost) {
      Do(machine_.OnNodeLost(now, admin->node));
      reply(protocol::AdminReply{});
      return;
    }
    const uint64_t call = ++last_call_;
    if (collector_.recording() && IsRecorded(request)) recorded_calls_[call] = protocol::NodeOf(request);
    if (WantsGradients(now, request)) gradients_call_ = call;
    Note(now, request);
    if (const uint64_t term = protocol::TermOf(request);
        term != 0 && term < store_->term() && protocol::SameRun(term, store_->term()))
      former_calls_.insert(call);
    if (const auto* join = std::get_if<protocol::JoinRequest>(&request)) joining_[call] = *join;
    calls_[call] = std::move(reply);
    replicator_->OnHeartbeat(call, request);
    if (ended_) return;
    bool stalled = !queue_.Stalled().ok();
    const bool waits = !queue_.empty() || !replicator_->founded();
    if (auto early = waits ? replicator_->EarlyReply(call, request) : std::nullopt) {
      std::exchange(calls_[call], [](const protocol::ControlReply&) {})(std::move(*early));
      stalled = true;
    }
    auto* worker = std::get_if<protocol::WorkerHeartbeat>(&request);
    if (stalled && worker != nullptr) worker->leases_wanted = 0;
    auto actions = machine_.OnRequest(now, call, request);
    if (stalled) {
      AnswerHeartbeat(request, &actions);
    } else if (const auto* server = std::get_if<protocol::ServerHeartbeat>(&request)) {
      // A server that has not heard of this coordinator is not told its slices.
      if (!former_calls_.contains(call)) server_calls_[call] = server->node;
      const auto arrived = [](const auto& move) {
        return move.stage == protocol::MoveReport::Stage::kArrived;
      };
      if (std::ranges::any_of(server->moves, arrived)) {
        kill_point_.Pass(job::DiePoint::kMoveMade);
        deciding_call_ = call;
      }
    }
    Do(std::move(actions));
    const auto* admin = std::get_if<protocol::AdminRequest>(&request);
    if (admin != nullptr && admin->kind == protocol::AdminRequest::Kind::kDiscard) queue_.Abandon();
  }

  // Gradients come from the first worker that reports, once in a while. If it trains nothing more, another
  // one is asked later.
  bool WantsGradients(Time now, const protocol::ControlRequest& request) const {
    const auto* worker = std::get_if<protocol::WorkerHeartbeat>(&request);
    return worker != nullptr && options_.tensorboard_gradients && now >= gradients_due_ &&
           worker->progress.steps > 0;
  }
  void AddGradientsWanted(uint64_t call, protocol::ControlReply* reply) {
    auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(reply);
    if (call != gradients_call_ || worker == nullptr) return;
    worker->gradients_wanted = true;
    gradients_due_ = loop_.Now() + kGradientsPause;
  }

  // ---- recordings
  static bool IsRecorded(const protocol::ControlRequest& heartbeat) {
    return std::holds_alternative<protocol::WorkerHeartbeat>(heartbeat) ||
           std::holds_alternative<protocol::ServerHeartbeat>(heartbeat);
  }
  protocol::TimelineReply OnTimeline(Time now, const protocol::TimelineRequest& request) {
    if (request.kind == protocol::TimelineRequest::Kind::kFetch) return collector_.OnFetch(now, request);
    NoteRecorded(machine_.status().view);
    std::vector<timeline::Collector::Member> members;
    for (const auto& [node, member] : recorded_members_) members.push_back(member);
    auto reply = collector_.Start(now, request.length, members);
    if (reply.status.ok()) recorder_.Begin();
    return reply;
  }
  void NoteRecorded(const protocol::View& view) {
    recorded_members_.clear();
    for (const auto& member : view.members) {
      if (member.role != protocol::Role::kWorker && member.role != protocol::Role::kServer) continue;
      auto [host, pid] = progress_.ProcessOf(member.node);
      recorded_members_[member.node] = {member.node, protocol::Name(member), std::move(host), pid};
    }
  }
  void Record(Time now, const protocol::View& view) {
    if (collector_.recording()) {
      NoteRecorded(view);
      collector_.AddOwn(recorder_.Take(), recorder_.dropped());
    }
    std::set<NodeId> members;
    for (const auto& [node, member] : recorded_members_) members.insert(node);
    collector_.OnTimer(now, members);
    if (collector_.recording()) return;
    recorder_.End();
    recorded_members_.clear();
    recorded_calls_.clear();
  }
  void AddRecordOrder(uint64_t call, protocol::ControlReply* reply) {
    const auto recorded = recorded_calls_.extract(call);
    if (!recorded) return;
    const auto member = recorded_members_.find(recorded.mapped());
    if (member == recorded_members_.end()) return;
    auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(reply);
    auto* server = std::get_if<protocol::ServerHeartbeatReply>(reply);
    const auto order = collector_.OrderFor(loop_.Now(), member->second);
    if (worker != nullptr) worker->record = order;
    if (server != nullptr) server->record = order;
  }

  // While the journal cannot be written, no reply may depend on a record that is not on disk. A heartbeat
  // gets one at once that changes nothing, so that members do not take the coordinator for lost.
  void AnswerHeartbeat(const protocol::ControlRequest& request, protocol::CoordinatorActions* actions) {
    const auto at = std::ranges::find_if(*actions, [this](const protocol::CoordinatorAction& action) {
      const auto* reply = std::get_if<protocol::Reply>(&action);
      return reply != nullptr && reply->call == last_call_;
    });
    if (at == actions->end()) return;
    protocol::Reply reply = std::get<protocol::Reply>(*at);
    // A member is not sent away by a coordinator that may have been replaced.
    const auto ends = [](const auto* its) { return its != nullptr && (its->evicted || its->stop); };
    if (!replicator_->WaitsFor().empty() &&
        (ends(std::get_if<protocol::WorkerHeartbeatReply>(&reply.reply)) ||
         ends(std::get_if<protocol::ServerHeartbeatReply>(&reply.reply))))
      return;
    if (auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(&reply.reply)) {
      *worker = {
          .term = worker->term, .evicted = worker->evicted, .stop = worker->stop, .revoked = worker->revoked};
    } else if (auto* server = std::get_if<protocol::ServerHeartbeatReply>(&reply.reply)) {
      const auto& heartbeat = std::get<protocol::ServerHeartbeat>(request);
      const auto last = last_replies_.find(heartbeat.node);
      const bool knows = former_calls_.count(reply.call) == 0;
      if (!server->evicted && !server->stop && knows) {
        if (last == last_replies_.end()) return;  // it has not been told its slices
        *server = last->second;
        server->view = {};
        server->checkpoint.reset();
        // It keeps the slices that have arrived: they may be its own by now.
        for (const protocol::MoveReport& move : heartbeat.moves) server->incoming.push_back(move.id);
      }
    } else if (auto* feed = std::get_if<protocol::FeedHeartbeatReply>(&reply.reply)) {
      feed->drain = false;
    } else if (auto* serve = std::get_if<protocol::ServeHeartbeatReply>(&reply.reply)) {
      serve->drain = false;
      serve->view = {};
    } else if (!std::holds_alternative<protocol::BotsHeartbeatReply>(reply.reply) &&
               !std::holds_alternative<protocol::JobReply>(reply.reply)) {
      return;
    }
    actions->erase(at);
    Act(reply);
  }

  void Note(Time now, const protocol::ControlRequest& request) {
    if (const std::string metrics = protocol::MetricsIn(request);
        !metrics.empty() && net::ParseAddress(metrics).ok())
      progress_.OnMetrics(protocol::NodeOf(request), metrics);
    if (const auto* worker = std::get_if<protocol::WorkerHeartbeat>(&request)) {
      progress_.OnWorker(now, worker->node, worker->progress);
      if (tensorboard_ != nullptr && !worker->gradients.empty()) tensorboard_->OnGradients(worker->gradients);
      if (worker->member_report) progress_.OnMemberReport(worker->node, *worker->member_report);
      OnDrift(progress_.TakeAlarms());
    } else if (const auto* server = std::get_if<protocol::ServerHeartbeat>(&request)) {
      progress_.OnServer(now, server->node, server->progress);
      for (const auto& ledger : server->ledgers) progress_.OnUpdates(ledger.version);
    } else if (const auto* bots = std::get_if<protocol::BotsHeartbeat>(&request)) {
      progress_.OnBots(now, bots->node, *bots);
    } else if (const auto* feed = std::get_if<protocol::FeedHeartbeat>(&request)) {
      progress_.OnFeed(now, feed->node, *feed);
    } else if (const auto* serve = std::get_if<protocol::ServeHeartbeat>(&request)) {
      progress_.OnServe(now, serve->node, *serve);
    }
  }

  void OnDrift(const std::vector<report::DriftAlarm>& alarms) {
    if (alarms.empty()) return;
    for (const auto& alarm : alarms) {
      spdlog::warn("drift: alarm {} of {} on {} at event {}; the mean before it was {:.4f}", alarm.number,
                   job_.drift->detector_name(), fields::NameOf(job_.drift->on), alarm.event, alarm.mean);
    }
    // Later, because the request with the alarm is not handled yet.
    using Alarm = metrics::DriftConfig::Alarm;
    if (job_.drift->alarm == Alarm::kCheckpoint) loop_.Post([this] { CheckpointAfterAlarm(); });
    if (job_.drift->alarm == Alarm::kRaiseRate) loop_.Post([this] { RaiseRate(); });
  }

  void RaiseRate() {
    auto actions = machine_.OnDrift(loop_.Now());
    for (const auto& action : actions) {
      const auto* journal = std::get_if<protocol::AppendJournal>(&action);
      const auto* raised = journal != nullptr ? std::get_if<protocol::RateRaised>(&journal->record) : nullptr;
      if (raised == nullptr) continue;
      std::string where;
      for (size_t p = 0; p < raised->first.size(); ++p) {
        where += (p == 0 ? "partition " : ", ") + std::to_string(p) + " from offset " +
                 std::to_string(raised->first[p].offset) + " to " + std::to_string(raised->last[p].offset);
      }
      spdlog::info("drift: the learning rate times {} for {}", raised->factor, where);
    }
    Do(std::move(actions));
  }

  void CheckpointAfterAlarm() {
    OnRequest(protocol::AdminRequest{protocol::AdminRequest::Kind::kCheckpoint},
              [](const protocol::ControlReply& reply) {
                const auto* done = std::get_if<protocol::AdminReply>(&reply);
                if (done != nullptr && !done->status.ok())
                  spdlog::warn("no checkpoint after an alarm of drift: {}", done->status.ToString());
              });
  }

  // Reads how far the stream reaches. A source that cannot be asked for a moment is asked again; a source
  // that has all that it will ever have is not.
  void Poll() {
    if (!streams_.remote) return OnRanges(streams_.source->Ranges());
    poll_thread_.Post([this, marks = machine_.label_marks()] {
      for (size_t i = 0; i < marks.size(); ++i) {
        const auto last = marks[i].last.value_or(protocol::LabelMark());
        streams_.source->WantMarks(partitions_[i], {last.events, last.labels_begin, last.labels_end},
                                   marks[i].room);
      }
      auto ranges = std::make_shared<Result<std::vector<stream::PartitionRange>>>(streams_.source->Ranges());
      loop_.Post([this, ranges] { OnRanges(*ranges); });
    });
  }

  void OnRanges(const Result<std::vector<stream::PartitionRange>>& ranges) {
    poll_pause_ = std::min(2 * poll_pause_, kQuietStreamPoll);
    if (ranges.ok()) {
      if (*ranges != last_ranges_) poll_pause_ = kStreamPoll;
      last_ranges_ = *ranges;
      stream_away_since_.reset();
      ReportUnasked();
      std::vector<protocol::StreamRange> known;
      for (const auto& r : *ranges) {
        known.push_back({r.partition, r.begin, r.end, r.sealed});
        for (const auto& mark : r.marks)
          known.back().marks.push_back({mark.events, mark.labels_begin, mark.labels_end});
      }
      Do(machine_.OnStream(loop_.Now(), known));
    } else {
      if (ranges.status().message() != stream_away_) spdlog::warn("stream: {}", ranges.status().ToString());
      stream_away_ = ranges.status().message();
      if (!stream_away_since_) stream_away_since_ = loop_.Now();
      if (ranges.status().code() == Code::kDataLoss) return Fail(ranges.status());
    }
    const bool whole =
        !last_ranges_.empty() && std::ranges::all_of(last_ranges_, &stream::PartitionRange::sealed);
    if (!ended_ && !whole) loop_.After(poll_pause_, [this] { Poll(); });
  }

  void Tick() {
    const Time now = loop_.Now();
    if (options_.metrics != nullptr) options_.metrics->liveness().Turned(now);
    replicator_->Tick();
    // The members are gone, so nobody can be told that a standby is, too.
    if (machine_.next_timer() == Time::max()) {
      if (!over_since_) over_since_ = now;
      if (now - *over_since_ > kEndWait) queue_.Abandon();
    }
    if (ended_) return;
    AskForLaterTerm();
    if (machine_.next_timer() <= now) Do(machine_.OnTimer(now));
    // Half an interval early is as good, so that both timers run at once.
    if (now - last_status_ >= kStatusInterval / 2) {
      last_status_ = now;
      if (publisher_ != nullptr) {
        Do(machine_.OnPublishers(now, publisher_->Reports()));
        publisher_->SetOrders(machine_.publisher_orders());
      }
      const protocol::CoordinatorStatus status = JobStatus();
      progress_.OnStatus(now, status);
      scaling_.OnStatus(now, status, progress_.Oldest(now));
      machine_.SetChosen(scaling_.chosen());
      if (options_.metrics != nullptr) options_.metrics->NeedsWorkers(scaling_.needs_workers());
      NoteFeeds(status.view);
      std::erase_if(last_replies_, [&](const auto& its) { return status.view.Find(its.first) == nullptr; });
      // The last known addresses are kept when all standbys are lost.
      if (auto standbys = status.view.standbys(); !standbys.empty()) standbys_ = std::move(standbys);
      MeasureSaving(status);
      Record(now, status.view);
      ReportUnreachable(status);
      Report(status.misplaced, &misplaced_);  // each rule of places
      ReportWaiting(now, status.waiting_for);
      if (tensorboard_ != nullptr && tensorboard_->Due(now) && Trains(status))
        tensorboard_->OnStatus(now, progress_.Show(now, status, OwnCpuSeconds()));
      StoreHistory(now, status);
      for (const auto& notice : progress_.TakeShareNotices()) {
        notice.over ? spdlog::info("over: {}", notice.text) : spdlog::warn("{}", notice.text);
      }
      if (status.failed_checkpoints > reported_failures_) {
        spdlog::warn("a checkpoint failed ({} since the start): {}", status.failed_checkpoints,
                     status.checkpoint_failure);
        reported_failures_ = status.failed_checkpoints;
      }
    }
    if (ended_) return;
    // The core may be shared with a worker, so sleep until the next deadline.
    const Time next = std::min(machine_.next_timer(), last_status_ + kStatusInterval);
    loop_.After(std::max(next - now, Duration::zero()), [this] { Tick(); });
  }

  // Not while slices are awaited: then it is not known how far the job is.
  static bool Trains(const protocol::CoordinatorStatus& status) {
    using Phase = protocol::CoordinatorStatus::Phase;
    return status.phase != Phase::kWaitingForServers && status.phase != Phase::kWaitingForWorkers;
  }

  // While standbys confirm nothing, one of them may be the coordinator, and no member tell.
  void AskForLaterTerm() {
    const Time now = loop_.Now();
    if (queue_.Stalled().ok() || replicator_->WaitsFor().empty()) {
      asked_ = now;
    } else if (now - asked_ > kAsk) {
      asked_ = now;
      if (standbys_.empty()) return;
      poll_thread_.Post([this, addresses = standbys_] {
        const auto term =
            roles::AskForLaterTerm(addresses, replication_.config.coordinator, store_->term(), options_);
        if (!term) return;
        loop_.Post([this, term] {
          Replaced(Status(Code::kStale, "a coordinator of term " + std::to_string(protocol::NumberOf(*term)) +
                                            " has replaced this one"));
        });
      });
    }
  }

  void Do(protocol::CoordinatorActions actions) { queue_.Push(std::move(actions)); }

  void NoteFeeds(const protocol::View& view) {
    if (streams_.feeds == nullptr) return;
    std::vector<std::string> feeds;
    for (const auto& member : view.members) {
      if (member.role == protocol::Role::kFeed) feeds.push_back(member.address);
    }
    // The first feed is not a member yet when the job starts.
    if (feeds.empty()) feeds.push_back(options_.feed);
    streams_.feeds->Set(std::move(feeds));
  }

  // Each pair once, when it comes and when it goes.
  void ReportUnreachable(const protocol::CoordinatorStatus& status) {
    std::map<std::pair<NodeId, NodeId>, std::string> now;
    for (const auto& [worker, peer] : status.unreachable) {
      const auto *from = status.view.Find(worker), *to = status.view.Find(peer);
      if (from == nullptr || to == nullptr) continue;
      now[{worker, peer}] =
          protocol::Name(*from) + " cannot reach " + protocol::Name(*to) + " at " + to->address;
    }
    Report(std::move(now), &unreachable_);
  }

  // Says what has come, and what is over. `said`: what there was before.
  template <class About>
  static void Report(std::map<About, std::string> now, std::map<About, std::string>* said) {
    for (const auto& [about, text] : now) {
      if (!said->contains(about)) spdlog::warn("{}", text);
    }
    for (const auto& [about, text] : *said) {
      if (!now.contains(about)) spdlog::info("over: {}", text);
    }
    *said = std::move(now);
  }

  // Once, when partitions cannot be asked, and when all of them can again.
  void ReportUnasked() {
    std::string now = Unasked(last_ranges_);
    if (unasked_.empty() && !now.empty()) spdlog::warn("{}", now);
    if (!unasked_.empty() && now.empty()) spdlog::info("over: {}", unasked_);
    progress_.SetStreamWarning(now);
    unasked_ = std::move(now);
  }

  // Once for each reason that lasts.
  void ReportWaiting(Time now, const std::string& what) {
    if (what != waits_for_) {
      waits_for_ = what;
      waits_since_ = now;
      waits_said_ = false;
    } else if (!what.empty() && !waits_said_ && now - waits_since_ > kWaitIsSaid) {
      waits_said_ = true;
      spdlog::warn("the job waits for {}", what);
    }
  }

  // Measures how much has been written of the checkpoint that is being made.
  void MeasureSaving(const protocol::CoordinatorStatus& status) {
    if (!status.saving || status.saving->id != saving_) saved_bytes_ = 0;
    saving_ = status.saving ? status.saving->id : 0;
    if (!status.saving || status.saving->directory.empty() || measures_saving_) return;
    measures_saving_ = true;
    InBackground([directory = status.saving->directory] { return SavedBytes(directory); },
                 [this, id = saving_](uint64_t bytes) {
                   measures_saving_ = false;
                   if (id == saving_) saved_bytes_ = bytes;
                 });
  }

  // Runs `work` on the background thread, then `done` with its result on the loop.
  template <class Work, class Done>
  void InBackground(Work work, Done done) {
    On(background_, std::move(work), std::move(done));
  }
  template <class Work, class Done>
  void On(BackgroundThread& thread, Work work, Done done) {
    thread.Post([this, work = std::move(work), done = std::move(done)] {
      loop_.Post([this, done, result = work()]() mutable {
        if (!ended_) done(std::move(result));
      });
    });
  }

  // Runs `work` on the thread that talks to the bucket, then `done` on the loop.
  template <class Work, class Done>
  void InBucket(Work work, Done done) {
    On(bucket_thread_, std::move(work), std::move(done));
  }

  void Act(protocol::Reply& a) {
    auto call = calls_.extract(a.call);
    if (call.empty()) return;
    if (auto joining = joining_.extract(a.call)) {
      if (auto* joined = std::get_if<protocol::JoinReply>(&a.reply);
          joined != nullptr && joined->status.ok()) {
        shard_service_->Fill(joined);
        progress_.OnJoin(loop_.Now(), joined->node, joining.mapped());
        const protocol::JoinRequest& request = joining.mapped();
        spdlog::info("{} {} joined as node {} (pid {} on {})",
                     request.standby ? "standby" : protocol::Name(request.role), joined->index,
                     joined->node.value, request.pid, request.host);
      }
    }
    if (a.call == deciding_call_) kill_point_.Pass(job::DiePoint::kMoveJournaled);
    if (former_calls_.erase(a.call) > 0) FillTransfers(&a.reply);
    AddRecordOrder(a.call, &a.reply);
    AddGradientsWanted(a.call, &a.reply);
    replicator_->Stamp(a.call, &a.reply);
    if (const auto server = server_calls_.extract(a.call)) {
      // A member of another run is evicted, whatever its node.
      const auto* const sent = std::get_if<protocol::ServerHeartbeatReply>(&a.reply);
      if (sent != nullptr && !sent->evicted) {
        last_replies_[server.mapped()] = *sent;
        last_replies_[server.mapped()].record.reset();
      }
    }
    call.mapped()(std::move(a.reply));
  }
  // For a member of the former coordinator.
  void FillTransfers(protocol::ControlReply* reply) const {
    protocol::JoinReply joined;
    shard_service_->Fill(&joined);
    const auto fill = [&joined](auto* its) {
      its->transfers = joined.transfers;
      its->probe = joined.probe;
      its->probe_content = joined.probe_content;
    };
    if (auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(reply)) fill(worker);
    if (auto* server = std::get_if<protocol::ServerHeartbeatReply>(reply)) fill(server);
  }
  void Act(protocol::AppendJournal&) {}  // done by the queue
  void Act(protocol::ConfirmTerm&) {}    // done by the queue
  void Act(protocol::PrepareCheckpoint& a) {
    checkpoint_begun_ = {a.id, loop_.Now()};
    // A local stream has none. The others are asked where nothing waits for them.
    if (streams_.remote) UpdateFingerprints(std::move(a.watermark));
    if (bucket_ == nullptr) return Prepare(a.id, a.bytes);
    // Otherwise members would upload shards that nobody removes.
    InBucket([this] { return bucket_->CheckTerm(); },
             [this, id = a.id, bytes = a.bytes](const Status& newest) {
               if (newest.ok()) return Prepare(id, bytes);
               Do(machine_.OnCheckpointPrepared(loop_.Now(), id, NotStale(newest)));
             });
  }
  void Prepare(uint64_t id, uint64_t bytes) {
    InBackground(
        [this, id, bytes] {
          auto order = store_->Prepare(id, bytes);
          if (order.ok()) shard_service_->OnPrepared(*order);
          return order;
        },
        [this, id](Result<protocol::CheckpointOrder> order) {
          if (order.status().code() == Code::kStale) return Replaced(order.status());
          Do(machine_.OnCheckpointPrepared(loop_.Now(), id, std::move(order)));
        });
  }
  void UpdateFingerprints(std::vector<protocol::Position> watermark) {
    const auto done = [this](Result<std::vector<protocol::Fingerprint>> taken) {
      loop_.Post([this, taken = std::move(taken)] {
        if (taken.ok()) {
          fingerprints_ = *taken;
        } else if (taken.status().code() == Code::kDataLoss) {
          Fail(taken.status().With(job_.stream.Describe()));
        }
      });
    };
    // If those before are not taken yet, the next checkpoint has newer ones.
    (void)fingerprint_thread_.Take(std::move(watermark), fingerprints_, done);
  }
  // Another coordinator has taken the job over.
  void Replaced(const Status& why) {
    if (ended_) return;
    for (auto& action : machine_.OnReplaced(why)) std::visit([this](auto& a) { Act(a); }, action);
  }
  // The job's training since the last checkpoint is not to be trusted.
  void Fail(const Status& why) {
    if (!failure_.ok() || ended_) return;
    spdlog::error("{}", why.ToString());
    failure_ = why;
    OnRequest(protocol::AdminRequest{protocol::AdminRequest::Kind::kDiscard}, [](auto) {});
  }
  void Act(protocol::CommitManifest& a) {
    kill_point_.Pass(job::DiePoint::kManifest);
    // On disk a checkpoint is named by its place in the job's directory, so that the whole can be moved.
    auto manifest = a.manifest;
    manifest.fingerprints = fingerprints_;
    manifest.directory = std::filesystem::path(manifest.directory).filename().string();
    const auto done = [this, manifest = a.manifest](const Status& status) {
      if (status.code() == Code::kStale) return Replaced(status);
      if (status.ok()) OnCheckpoint(manifest);
      Do(machine_.OnManifestCommitted(loop_.Now(), manifest.id, status));
    };
    if (bucket_ == nullptr) {
      return InBackground(
          [this, manifest, directory = a.manifest.directory] { return Commit(manifest, directory); }, done);
    }
    InBucket([this, manifest,
              directory = a.manifest.directory] { return bucket_->FetchMissing(manifest, directory); },
             [this, manifest, directory = a.manifest.directory, done](const Status& fetched) {
               if (!fetched.ok()) return done(NotStale(fetched));
               InBackground(
                   [this, manifest, directory]() -> Result<std::vector<protocol::JournalRecord>> {
                     LEAT_RETURN_IF_ERROR(Commit(manifest, directory));
                     return store_->ReadJournal();
                   },
                   [this, manifest, done](Result<std::vector<protocol::JournalRecord>> records) {
                     if (!records.ok()) return done(records.status());
                     checkpoint::BucketManifest whole{.term = protocol::NumberOf(store_->term()),
                                                      .manifest = manifest,
                                                      .job = job_.config.ToYaml(),
                                                      .records = std::move(*records)};
                     InBucket([this, whole = std::move(whole)] { return bucket_->Commit(whole); },
                              [done](const Status& put) { done(NotStale(put)); });
                   });
             });
  }
  // The coordinator is decided without the bucket.
  static Status NotStale(const Status& status) {
    return status.code() == Code::kStale ? Status(Code::kFailedPrecondition, status.message()) : status;
  }
  // In the background: in the job's directory.
  Status Commit(const protocol::Manifest& manifest, const std::string& directory) {
    LEAT_RETURN_IF_ERROR(store_->Commit(manifest));
    // A checkpoint is complete, whether others can read it or not.
    if (const Status published = shard_service_->OnComplete(directory, manifest); !published.ok())
      spdlog::warn("checkpoint {} cannot be published: {}", manifest.id, published.ToString());
    std::vector<uint64_t> offsets;
    for (const auto& position : manifest.watermark) offsets.push_back(position.offset);
    if (const Status told = streams_.for_background().CommitOffsets(job_.name, offsets); !told.ok())
      spdlog::warn("commit of offsets: {}", told.ToString());
    return {};
  }
  void OnCheckpoint(const protocol::Manifest& manifest) {
    if (checkpoint_begun_.first == manifest.id && track_->on())
      track_->Add({.kind = timeline::Kind::kCheckpoint,
                   .begin = checkpoint_begun_.second,
                   .end = loop_.Now(),
                   .number = manifest.id});
    spdlog::info("checkpoint {} of {} events is complete", manifest.id, manifest.events);
    replicator_->OnCheckpoint(manifest.id);
    checkpoints_.Add();
    durable_ = manifest.id;
    last_checkpoint_.Set(Seconds(UnixTime()));
    if (tensorboard_ != nullptr) tensorboard_->OnCheckpoint(manifest.directory, manifest);
  }
  void Act(protocol::DropCheckpoints& a) { replicator_->Drop(a); }
  void Drop(const protocol::DropCheckpoints& a) {
    if (bucket_ != nullptr) {
      bucket_thread_.Post([this, oldest_kept = a.oldest_kept, newest = durable_] {
        if (const Status dropped = bucket_->Drop(oldest_kept, newest); !dropped.ok())
          spdlog::warn("old checkpoints stay in the bucket: {}", dropped.ToString());
      });
    }
    files_thread_.Post([this, a] {
      const Status dropped = store_->DropCheckpoints(a.oldest_kept);
      background_.Post([this, a, dropped] { ReleaseBefore(a.watermark, dropped); });
    });
  }
  // In the background, once old checkpoints have been dropped.
  void ReleaseBefore(const std::vector<protocol::Position>& watermark, Status dropped) {
    if (dropped.ok()) dropped = store_->CompactJournal(watermark);
    if (!dropped.ok()) spdlog::warn("{}", dropped.ToString());
    // The needs of another coordinator are its own business. With more epochs to come, every event will be
    // wanted again.
    if (dropped.code() == Code::kStale || epochs_ > 1) return;
    for (size_t i = 0; i < partitions_.size() && i < watermark.size(); ++i) {
      if (auto status = streams_.for_background().Pin(job_.PinOwner(), partitions_[i], watermark[i].offset);
          !status.ok())
        spdlog::warn("pin: {}", status.ToString());
    }
  }
  void Act(protocol::RemoveCheckpoint& a) {
    if (bucket_ == nullptr) return Remove(a.id);
    // After it has been made.
    InBucket([] { return Status(); }, [this, id = a.id](const Status&) { Remove(id); });
  }
  void Remove(uint64_t id) {
    background_.Post([this, id] {
      shard_service_->OnRemoved(id);
      files_thread_.Post([this, id] {
        if (auto status = store_->Remove(id); !status.ok()) spdlog::warn("{}", status.ToString());
      });
    });
  }
  void Act(protocol::VerifyCheckpoint& a) {
    On(
        files_thread_,
        [directory = store_->directory(), a] {
          Verified verified{checkpoint::VerifyCheckpoint(directory, a.id)};
          verified.has_other = verified.status.code() == Code::kDataLoss && a.before &&
                               checkpoint::VerifyCheckpoint(directory, a.before->id).ok();
          return verified;
        },
        [this, a](const Verified& verified) {
          InBackground([this, a, verified] { return PutAside(a, verified); },
                       [this, id = a.id](const Status& status) {
                         if (status.code() == Code::kStale) return Replaced(status);
                         Do(machine_.OnCheckpointVerified(loop_.Now(), id, status));
                       });
        });
  }
  struct Verified {
    Status status;
    bool has_other = false;  // it is damaged, and the one before it can take its place
  };
  // In the background.
  Status PutAside(const protocol::VerifyCheckpoint& a, const Verified& verified) {
    const Status& status = verified.status;
    if (status.code() != Code::kDataLoss) return status;
    // If the checkpoint before cannot take its place, the job ends and says so.
    if (!verified.has_other) {
      spdlog::error("checkpoint {} is damaged: {}", a.id, status.message());
      return status;
    }
    shard_service_->OnRemoved(a.id);
    if (const Status published = shard_service_->OnComplete(a.before->directory, *a.before); !published.ok())
      spdlog::warn("checkpoint {} cannot be published: {}", a.before->id, published.ToString());
    const Status aside = store_->SetAside(a.id);
    if (aside.code() == Code::kStale) return aside;
    spdlog::warn("{}; checkpoint {} is used instead; {}", status.message(), a.before->id,
                 aside.ok() ? "kept aside as " + store_->directory() + "/" + checkpoint::AsideName(a.id)
                            : "it cannot be kept aside: " + aside.message());
    return status;
  }
  // Everything that is still to be done in the background comes first.
  void Act(protocol::JobEnded& a) {
    if (a.status.code() == Code::kStale) {
      spdlog::error("{}; this one ends", a.status.message());
      return End(std::move(a.status));
    }
    std::vector<BackgroundThread*> threads = {&bucket_thread_, &background_, &files_thread_};
    if (bucket_ == nullptr) threads.erase(threads.begin());
    EndAfter(std::move(threads), a);
  }
  // After the work of these threads, one after the other: the first ones have work for the others.
  void EndAfter(std::vector<BackgroundThread*> threads, const protocol::JobEnded& a) {
    if (threads.empty()) return EndInDirectory(a);
    BackgroundThread& first = *threads.front();
    threads.erase(threads.begin());
    On(
        first, [] { return true; }, [this, threads, a](bool) { EndAfter(threads, a); });
  }
  void EndInDirectory(const protocol::JobEnded& a) {
    // Otherwise standbys may know better.
    const bool agreed = replicator_->WaitsFor().empty();
    InBackground(
        [this, agreed, finished = a.finished, left = a.left] {
          // If it cannot be written, the next coordinator waits for them for a while.
          if (agreed && !left.nodes.empty()) (void)store_->AppendJournal(left);
          if (const Status over = agreed ? store_->End() : Status(); !over.ok())
            spdlog::warn("standbys may not learn that the job is over: {}", over.ToString());
          // A job that was trained to its end needs no event any more; a stopped one can be resumed.
          return finished ? streams_.for_background().Unpin(job_.PinOwner()) : Status();
        },
        [this, outcome = a.status, finished = a.finished](const Status& unpinned) {
          if (!unpinned.ok()) spdlog::warn("unpin: {}", unpinned.ToString());
          End(finished && outcome.ok() ? CheckDeadLetters() : outcome);
        });
  }

  // At the end of the stream the limit holds for all of it, however short it was.
  Status CheckDeadLetters() const {
    const protocol::CoordinatorStatus status = machine_.status();
    const auto dead = progress_.dead_letters(status);
    const uint64_t events = status.events + dead.count;
    if (!stream::DeadLetterRate::Above(job_.dead_letter_rate, events, dead.count)) return {};
    return {
        Code::kInvalidArgument,
        "too many dead letters: " + stream::DeadLetterRate::Share(job_.dead_letter_rate, events, dead.count) +
            ", the last: " + dead.last};
  }

  void End(Status outcome) {
    ended_ = true;
    outcome_ = failure_.ok() ? std::move(outcome) : failure_;
    summary_ = Shown(loop_.Now());
    loop_.Stop();
  }

  report::JobStatus Shown(Time now) {
    const protocol::CoordinatorStatus status = JobStatus();
    progress_.OnStatus(now, status);  // or the lag of partitions would be that of the last tick
    return progress_.Show(now, status, OwnCpuSeconds());
  }

  protocol::CoordinatorStatus JobStatus() const {
    auto status = machine_.status();
    if (const Status stalled = queue_.Stalled(); !stalled.ok())
      status.waiting_for = "the journal: " + stalled.message();
    if (status.waiting_for.starts_with("the journal") && !replicator_->WaitsFor().empty())
      status.waiting_for = "the journal: it waits for " + replicator_->WaitsFor();
    if (status.waiting_for.empty() && stream_away_since_ && loop_.Now() - *stream_away_since_ > kStreamAway)
      status.waiting_for = "the stream: " + stream_away_;
    if (status.saving && status.saving->id == saving_) status.saving->bytes = saved_bytes_;
    scaling_.Fill(&status.wanted);
    return status;
  }

  // For the job's history. A disk that is slow makes gaps in it, and holds up nothing else.
  void StoreHistory(Time now, const protocol::CoordinatorStatus& status) {
    if (now - last_record_ < observe::Recorder::kInterval - kStatusInterval / 2 ||
        history_busy_.exchange(true))
      return;
    last_record_ = now;
    record_thread_.Post(
        [this, time = UnixSeconds(now), shown = progress_.Show(now, status, OwnCpuSeconds())] {
          history_->OnStatus(time, shown);
          history_busy_ = false;
        });
  }
  void FinishRecord() {
    const auto done = std::make_shared<std::promise<void>>();
    record_thread_.Post([this, done, time = UnixSeconds(loop_.Now())] {
      history_->Finish(time, summary_);
      done->set_value();
    });
    done->get_future().wait_for(kLastRecord);
  }
  // A clock that is set while the job runs does not change this.
  double UnixSeconds(Time now) const { return Seconds(now - clocks_compared_at_) + clock_at_comparison_; }

  void WriteSummary() {
    const std::string path = job_.directory + "/summary.json";
    std::ofstream out(path + ".tmp");
    out << report::ToJson(summary_) << "\n";
    out.close();
    std::error_code error;
    if (out) std::filesystem::rename(path + ".tmp", path, error);
    if (out && !error) return;
    spdlog::error("{} cannot be written", path);
    std::filesystem::remove(path, error);  // an earlier run's would be taken for this one's
  }

  net::Loop loop_;
  metrics::Registry own_metrics_;  // if nobody looks at them
  metrics::Registry& metrics_;
  metrics::Counter& checkpoints_ = metrics_.counter("leat_job_checkpoints_total", "Complete checkpoints.");
  metrics::Gauge& last_checkpoint_ =
      metrics_.gauge("leat_job_last_checkpoint_time_seconds",
                     "When the last checkpoint was complete, since 1970; 0: none was since the start.");
  const job::Job& job_;
  const CoordinatorOptions& options_;
  std::unique_ptr<checkpoint::Store> store_;
  const std::unique_ptr<checkpoint::Bucket> bucket_;  // used by bucket_thread_; null: there is none
  CoordinatorStreams streams_;
  PublisherService* const publisher_;  // this process's; null: it has none
  report::Progress progress_;
  std::vector<stream::PartitionRange> last_ranges_;
  std::optional<Time> stream_away_since_;  // no partition can be asked
  std::string stream_away_;                // why the last time
  std::string unasked_;                    // as last reported
  Duration poll_pause_ = kStreamPoll;
  uint32_t epochs_;
  std::vector<uint32_t> partitions_;
  const std::optional<protocol::Manifest> restored_;
  Scaling scaling_;
  std::vector<protocol::Fingerprint> fingerprints_;  // fingerprints of records that are trained
  protocol::Coordinator machine_;
  KillPoint kill_point_;
  std::map<uint64_t, std::function<void(protocol::ControlReply)>> calls_;
  std::map<uint64_t, protocol::JoinRequest> joining_;
  timeline::Collector collector_{protocol::NumberOf(store_->term())};
  timeline::Recorder recorder_;
  timeline::Track* const track_ = recorder_.MakeTrack("checkpoints");
  std::map<NodeId, timeline::Collector::Member> recorded_members_;  // as of the last status
  std::map<uint64_t, NodeId> recorded_calls_;                       // heartbeats whose answers say to record
  std::pair<uint64_t, Time> checkpoint_begun_{};                    // the last one, and when
  uint64_t gradients_call_ = 0;  // the heartbeat whose answer asks for gradients; 0: none yet
  Time gradients_due_{0};
  std::set<uint64_t> former_calls_;  // heartbeats of members that have not heard of this coordinator yet
  uint64_t last_call_ = 0;
  uint64_t deciding_call_ = 0;  // the last one by which a move may be made
  Time last_status_{0};
  std::map<uint64_t, NodeId> server_calls_;  // heartbeats of servers that are not answered yet
  std::map<NodeId, protocol::ServerHeartbeatReply> last_replies_;
  std::map<std::pair<NodeId, NodeId>, std::string> unreachable_;  // by worker and peer: the warning
  bool ended_ = false;
  std::optional<Time> over_since_;     // the machine has ended
  Time asked_{0};                      // whether another coordinator has taken over
  std::vector<std::string> standbys_;  // addresses
  report::JobStatus summary_;
  Status outcome_;
  Status failure_;                  // why the job was ended
  uint64_t reported_failures_ = 0;  // number of failed checkpoints
  uint64_t durable_ = 0;            // the newest complete one since the start
  std::string waits_for_;
  Time waits_since_{0};
  bool waits_said_ = false;
  std::map<std::string, std::string> misplaced_;  // as last reported
  uint64_t saving_ = 0;                           // the checkpoint that is being made; 0: none
  uint64_t saved_bytes_ = 0;                      // bytes of it that are written
  bool measures_saving_ = false;
  std::unique_ptr<ShardService> shard_service_;
  BackgroundThread bucket_thread_{kNiceWithFiles};  // uses the members above
  BackgroundThread background_;                     // uses the members above
  // Reads and removes whole checkpoints, for which the journal cannot wait. Uses the thread before it, which
  // uses it.
  BackgroundThread files_thread_{kNiceWithFiles};
  BackgroundThread poll_thread_;  // asks other hosts for the stream's ranges
  FingerprintThread fingerprint_thread_{std::move(streams_.fingerprints)};
  CommitQueue queue_;
  const Replication replication_;
  const std::unique_ptr<tensorboard::RunWriter> tensorboard_;  // null: nobody has asked for it
  std::optional<Replicator> replicator_;  // once the service of checkpoints has an address
  const Time clocks_compared_at_ = loop_.Now();
  const double clock_at_comparison_ = Seconds(UnixTime());
  const std::shared_ptr<observe::JobMonitor> monitor_;
  Time last_record_{0};
  std::atomic<bool> history_busy_ = false;
  std::optional<observe::Recorder> history_;        // used by record_thread_
  BackgroundThread record_thread_{kNiceWithFiles};  // uses the members above
};

// A feed for workers on hosts without the job's input. Without it the job runs on all others.
std::unique_ptr<FeedThread> StartFeed(const job::Job& job, const CoordinatorOptions& options,
                                      PublisherService* publisher) {
  auto feed = FeedThread::Start(
      OnHostOf(options.listen, options.feed_port), {.token = options.token, .tls = options.tls},
      {.id = job.InputsHash(),
       .open = [stream = job.StreamIn(ZoneOf(job, options.place))] { return stream.Open(); },
       .assets = ServedAssets(job),
       .description = "",
       .on_scores = publisher != nullptr ? TakeScores(*publisher) : nullptr});
  if (feed.ok()) return std::move(*feed);
  spdlog::warn("no feed on this host: {}", feed.status().ToString());
  return nullptr;
}

// The job is that of a coordinator with another directory, whose place in the stream this one takes.
void UnpinFormer(const job::Job& job, stream::Source& source) {
  const job::Job former = job::ReadStoredWithoutModel(job.directory);
  if (former.PinOwner() == job.PinOwner()) return;
  if (const Status unpinned = source.Unpin(former.PinOwner()); !unpinned.ok())
    spdlog::warn("unpin: {}", unpinned.ToString());
}

// Not ok: the stream cannot be asked at present.
Status CheckSameTopic(const job::Job& job, stream::Source& source,
                      const std::vector<protocol::Fingerprint>& fingerprints) {
  const Status same = CheckFingerprints(source, fingerprints);
  if (same.code() == Code::kDataLoss) Throw(same.With(job.stream.Describe()));
  if (ExitStatusOf(same.code()) == ExitStatus::kMayHeal) return same;
  if (!same.ok()) spdlog::warn("{}", same.ToString());
  return {};
}

// A former coordinator that was killed may hold the directory for a moment more.
Result<std::unique_ptr<checkpoint::Store>> OpenStore(const job::Job& job, const CoordinatorOptions& options,
                                                     uint64_t term) {
  const MonotonicClock clock;
  const Time until = clock.Now() + kFormerEnds;
  while (true) {
    auto store = checkpoint::Store::Open(job.directory, options.resume, options.take_over, term);
    const bool held = options.resume && store.status().code() == Code::kFailedPrecondition;
    if (!held || clock.Now() >= until) return store;
    std::this_thread::sleep_for(kFormerPause);
  }
}

}  // namespace

Status RunCoordinator(const job::Job& given, const CoordinatorOptions& options) {
  job::Job job = given;
  if (options.scaler != nullptr && !job.autoscale.command.empty()) {
    throw std::invalid_argument(
        "--scaler: the job has a command that carries out its scaling (autoscale: command); remove one of "
        "the two");
  }
  const auto place = topology::PlaceOf(job.topology, net::HostName(), options.place);
  if (!place.ok()) Throw(place.status());
  checkpoint::IntactCheckpoint intact;
  // A job whose members are alive goes on, whatever becomes of the bucket.
  const bool goes_on = options.resume && !options.new_members;
  const auto patiently = [&options](const std::function<Status()>& attempt) {
    const Status status =
        options.resume ? launcher::AwaitHealing({.on_wait = options.on_wait}, attempt) : attempt();
    if (ExitStatusOf(status.code()) == ExitStatus::kBadInput) Throw(status);
    return status;
  };
  uint64_t first_term = 0;
  LEAT_RETURN_IF_ERROR(patiently([&] {
    if (!goes_on) first_term = job::CheckBucket(job, options.resume);
    return Status();
  }));
  if (options.resume) {
    intact = job::CheckResumable(job);
    if (options.feed.empty()) {
      LEAT_RETURN_IF_ERROR(patiently([&] {
        job = job::WithTrained(job, job::ReadStoredWithoutModel(job.directory).inputs);
        return Status();
      }));
    }
  }
  uint64_t elected = options.term;
  if (options.resume && !options.new_members && elected == 0) {
    LEAT_ASSIGN_OR_RETURN(elected,
                          ElectRestarted(job.directory, protocol::ElectorRole(job.strategy), options));
  }
  auto store = OpenStore(job, options, elected != 0 ? elected : first_term);
  if (!store.ok()) return store.status();
  LEAT_RETURN_IF_ERROR(job::KeepAssets(&job));
  LEAT_ASSIGN_OR_RETURN(auto bucket, MakeBucket(job, (*store)->term(), options.metrics.get()));
  if (bucket != nullptr && !goes_on) LEAT_RETURN_IF_ERROR(patiently([&] { return bucket->Claim(); }));
  protocol::RecoveredState restored;
  if (options.resume) {
    LEAT_ASSIGN_OR_RETURN(restored, (*store)->Restore(intact.damaged));
    if (restored.manifest) {
      restored.manifest->directory = (*store)->directory() + "/" + restored.manifest->directory;
    }
  }

  CoordinatorStreams streams;
  const job::Job prepared = job;
  std::vector<stream::PartitionRange> ranges;
  std::optional<Time> short_since;
  const Status opened = patiently([&]() -> Status {
    streams = CoordinatorStreams();
    job = prepared;
    if (options.feed.empty()) {
      LEAT_RETURN_IF_ERROR(PrepareStream(options.resume, &job));
      if (job.inputs.empty()) {
        LEAT_ASSIGN_OR_RETURN(auto inputs, job.stream.Identify());
        job = job.WithInputs(std::move(inputs));
      }
      LEAT_ASSIGN_OR_RETURN(streams, OpenOnThisHost(job));
      // A file that is written to at this moment differs from its identity.
      if (job.stream.files() != nullptr) LEAT_RETURN_IF_ERROR(job.CheckInputs());
    } else {
      streams = OpenAtFeed(job, options);
    }
    LEAT_ASSIGN_OR_RETURN(ranges, streams.source->Ranges());
    Status same;
    if (options.resume) {
      WithDamage(intact, [&] {
        job::CheckNoDataLoss(job, restored, *streams.source, MonotonicClock().Now(), &short_since, &ranges);
        if (restored.manifest) same = CheckSameTopic(job, *streams.source, restored.manifest->fingerprints);
      });
    }
    return same;
  });
  if (!opened.ok()) return opened;
  stream::Source* const source = streams.source.get();
  // Workers would find out one after the other, and only once they have been started.
  for (const std::string& warning : job::CheckFits(job, *source, ranges)) spdlog::warn("{}", warning);
  protocol::CoordinatorConfig config;
  config.table = job.Slices();
  config.placement = job.placement;
  config.servers = job.servers;
  config.max_servers = job.max_servers;
  config.replicas = job.replicas;
  config.workers = job.workers;
  config.wanted_workers = {job.workers, job.max_workers};
  config.strategy = job.strategy;
  config.cuts = job.Cuts();
  config.late_labels = job.schema.has_late_labels();
  config.heartbeat_interval = job.heartbeat_interval;
  config.heartbeat_timeout = job.heartbeat_timeout;
  config.leases.first = job.lease_timeout;
  config.stuck_timeout = job.stuck_timeout;
  config.checkpoint_interval = FromSeconds(job.checkpoint_interval_s);
  config.keep_checkpoints = job.keep_checkpoints;
  config.pause_at = options.pause_at;
  config.pool = options.pool;
  if (job.predictions.enabled()) config.max_unpublished = job.predictions.max_unpublished;
  if (job.drift && job.drift->alarm == metrics::DriftConfig::Alarm::kRaiseRate)
    config.raise = protocol::RateRaise{.factor = job.drift->factor, .events = job.drift->events};
  config.job = job.config.ToYaml();
  config.term = (*store)->term();
  config.take_over = options.resume && !options.new_members && job::SameAsStored(job);
  config.keep_scale = options.keep_scale || config.take_over;
  // With a feed on another host, it is that host that reaches the brokers.
  const auto publisher = options.feed.empty() ? MakePublisher(job) : nullptr;
  const auto feed = options.feed.empty() ? StartFeed(job, options, publisher.get()) : nullptr;
  if (feed != nullptr) config.feeds = {feed->address().substr(feed->address().rfind(':'))};
  config.version = ProgramVersion();
  config.network = net::NetworkId();
  config.topology = job.topology;
  if (options.feed.empty()) config.partition_places = FindPartitionPlaces(job);
  config.job_hash = job.Hash();
  for (const auto& range : ranges) config.partitions.push_back(range.partition);
  LEAT_RETURN_IF_ERROR(patiently([&]() -> Status {
    const Status pinned = PinStream(job, *source, restored, ranges);
    if (pinned.ok()) return pinned;
    return {pinned.code(), checkpoint::NoneLeft(intact.damaged, pinned.message())};
  }));
  if (elected != 0) UnpinFormer(job, *source);
  if (!options.resume) job::CheckNotEmpty(job, ranges);
  for (const std::string& note : job.notes) spdlog::info(note);
  auto tensorboard = StartTensorboard(job, options);
  checkpoint::Store& its_store = **store;
  LEAT_ASSIGN_OR_RETURN(Replication replication,
                        MakeReplication(job, its_store, elected != 0, restored.journal, options.electors));
  std::optional<CoordinatorRole> role;
  WithDamage(intact, [&] {
    role.emplace(job, options, std::move(*store), std::move(restored), std::move(streams),
                 feed != nullptr ? publisher.get() : nullptr, std::move(config), std::move(replication),
                 std::move(tensorboard), std::move(bucket));
  });
  for (const auto& damaged : intact.damaged) LEAT_RETURN_IF_ERROR(its_store.SetAside(damaged.id));
  if (!intact.damaged.empty()) spdlog::warn("{}", job::DamageNote(job, intact));
  // The job's page shows that this coordinator is gone, unless the job ended.
  struct NotLive {
    observe::JobMonitor* monitor;
    ~NotLive() {
      if (monitor != nullptr) monitor->SetLive(false);
    }
  } const not_live{options.monitor.get()};
  const Status outcome = role->Run();
  role.reset();  // its threads report no more
  return outcome;
}

}  // namespace leat::roles

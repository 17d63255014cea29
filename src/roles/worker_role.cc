#include "roles/worker_role.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "collective/port.h"
#include "job/job.h"
#include "job/precision.h"
#include "launcher/signals.h"
#include "protocol/worker/worker.h"
#include "ps/client.h"
#include "roles/group_member_role.h"
#include "roles/input/input_errors.h"
#include "roles/input/split_loader.h"
#include "roles/role.h"
#include "step/run_trainer.h"

namespace leat::train {
namespace {

// The shell around protocol::Worker. Everything runs on the loop's thread but decoding and the calls to the
// coordinator.
class WorkerRole {
 public:
  WorkerRole(net::Loop& loop, CoordinatorClient& coordinator_client, Job job,
             std::unique_ptr<stream::Source> source, const RoleOptions& options)
      : loop_(loop),
        coordinator_client_(coordinator_client),
        job_(std::move(job)),
        table_(job_.Slices()),
        transport_(MakeTransport(loop, options)),
        parameters_(table_, net::MakeSharedBuffer),
        trainer_(*job_.model, parameters_, job_.Plan(WithPrecision(job_, options.plan)),
                 job_.optimizer.clipping),
        runs_(trainer_, parameters_, job_.strategy, job_.optimizer),
        client_(
            *transport_, parameters_,
            {.on_reply = [this](NodeId server, const protocol::PushReply& reply) { OnReply(server, reply); },
             .on_failed =
                 [this](NodeId server, uint64_t sequence, const Status& why) {
                   spdlog::warn("push to server {} failed: {}", server.value, why.ToString());
                   Answered(server);
                   Do(machine_.OnPushFailed(loop_.Now(), server, sequence, why));
                 }}),
        loader_(loop, std::move(source), job_.schema,
                [this](uint64_t lease, Result<std::unique_ptr<PreparedSplit>> split) {
                  OnSplit(lease, std::move(split));
                }),
        intake_(job_, options.read_timeout, &progress_),
        machine_({.table = table_, .strategy = job_.strategy, .leases_ahead = kLeasesAhead}) {
    transport_->TrustNetwork(job_.trusted_network);
  }

  // Returns once the job is over, this node is evicted (`evicted` is set), or the coordinator is lost.
  Status Run(const protocol::JoinReply& joined, bool* evicted) {
    node_ = joined.node;
    interval_ = joined.heartbeat_interval;
    machine_.OnJoined(joined.node);
    intake_.OpenDeadLetters(node_);
    SendHeartbeat();
    Tick();
    loop_.Run();
    *evicted = evicted_;
    return outcome_;
  }

  void Leave() { Do(machine_.Leave(loop_.Now())); }

 private:
  // ---- control plane
  void SendHeartbeat() {
    if (coordinator_client_.busy() || over_) return;
    last_heartbeat_ = loop_.Now();
    auto heartbeat = machine_.MakeHeartbeat();
    heartbeat.progress = progress_;
    heartbeat.progress.cpu_seconds = OwnCpuSeconds();
    if (job_.model->task() == nn::Task::kBinary) heartbeat.progress.scores = trainer_.scores_seen().Encode();
    if (job_.schema.has_truth()) heartbeat.progress.true_scores = trainer_.truths_seen().Encode();
    coordinator_client_.Send(std::move(heartbeat), [this](Result<protocol::ControlReply> reply) {
      OnHeartbeatReply(std::move(reply));
    });
  }

  void OnHeartbeatReply(Result<protocol::ControlReply> reply) {
    if (over_) return;
    if (!reply.ok()) {
      spdlog::warn("heartbeat: {}", reply.status().ToString());
      if (coordinator_client_.lost()) End(reply.status().With("the coordinator is lost"));
      return;
    }
    if (auto* heartbeat = std::get_if<protocol::WorkerHeartbeatReply>(&*reply)) {
      Do(machine_.OnHeartbeatReply(loop_.Now(), *heartbeat));
    }
  }

  // Heartbeats and the machine's own timers; a beat that cannot wait is sent as soon as the last is answered,
  // but not so soon that an idle worker would spin.
  void Tick() {
    if (over_) return;
    const Time now = loop_.Now();
    if (machine_.next_timer() <= now) Do(machine_.OnTimer(now));
    if (now - last_heartbeat_ >= interval_ ||
        (machine_.HeartbeatUrgent() && now - last_heartbeat_ >= kUrgentGap))
      SendHeartbeat();
    loop_.After(kUrgentGap, [this] { Tick(); });
  }

  // ---- input
  void OnSplit(uint64_t lease, Result<std::unique_ptr<PreparedSplit>> split) {
    if (over_ || !wanted_.contains(lease)) {
      if (split.ok()) loader_.Recycle(std::move(*split));
      return;
    }
    if (!split.ok()) return OnUnreadable(lease, split.status());
    if (auto status = intake_.OnSplit(**split); !status.ok()) return End(std::move(status));
    splits_[lease] = std::move(*split);
    Do(machine_.OnSplitReady(loop_.Now(), lease));
  }

  // The lease is given back after a while.
  void OnUnreadable(uint64_t lease, const Status& why) {
    if (auto status = intake_.OnUnreadable(loop_.Now(), lease, why); !status.ok())
      return End(std::move(status));
    loop_.After(intake_.retry_interval(), [this, lease] {
      if (!over_) Do(machine_.OnSplitFailed(loop_.Now(), lease));
    });
  }

  // ---- compute and data plane
  void Do(const protocol::WorkerActions& actions) {
    for (const auto& action : actions) {
      if (over_) return;
      std::visit([this](const auto& a) { Act(a); }, action);
    }
    if (!over_ && machine_.HeartbeatUrgent() && loop_.Now() - last_heartbeat_ >= kUrgentGap) SendHeartbeat();
  }

  void Act(const protocol::PrepareSplit& a) {
    wanted_.insert(a.lease.id);
    loader_.Prepare(a.lease);
  }
  void Act(const protocol::DropSplit& a) {
    wanted_.erase(a.lease);
    if (auto node = splits_.extract(a.lease)) loader_.Recycle(std::move(node.mapped()));
  }
  // The batches of a run follow each other without a server in between: the loop has its turn before each of
  // them, or nobody would hear of us until the run has ended.
  void Act(const protocol::Compute& a) {
    if (!computing_) return Compute(a);
    loop_.Post([this, a] {
      if (!over_) Compute(a);
    });
  }
  void Compute(const protocol::Compute& a) {
    protocol::BatchOutcome outcome{.disposition = protocol::Disposition::kEmpty};
    if (const auto split = splits_.find(a.lease); split != splits_.end()) outcome = Train(*split->second, a);
    computing_ = true;
    Do(machine_.OnComputed(loop_.Now(), a.token, outcome));
    computing_ = false;
  }
  protocol::BatchOutcome Train(const PreparedSplit& split, const protocol::Compute& a) {
    const auto& cut = split.lease.cut;
    const trainer::Rows rows{
        .features = split.rows.features, .labels = split.rows.labels, .truth = split.rows.truth};
    const auto step = runs_.Step(rows, split.Batch(a.batch), cut.batch_size, RandomSeedOf(cut, a.batch),
                                 {.first = a.first, .last = a.last, .version = a.version});
    progress_.loss_sum += step.loss_sum;
    progress_.correct += step.correct;
    ++progress_.steps;
    if (step.finite) {
      progress_.events += step.events;
      return {step.events > 0 ? protocol::Disposition::kGradient : protocol::Disposition::kEmpty,
              step.events};
    }
    ++progress_.rejected_batches;
    spdlog::warn(
        "partition {} offsets {} to {}, batch {}: the gradient is not finite; nothing of {} is applied",
        cut.partition, cut.begin.offset, cut.end, a.batch,
        cut.run > 1               ? "its run"
        : job_.strategy.stepped() ? "its step"
                                  : "it");
    return {protocol::Disposition::kRejected, step.events};
  }
  void Act(const protocol::SendPush& a) {
    if (asked_.empty()) {
      waiting_since_ = loop_.Now();
      vigil_.emplace(loop_);
    }
    asked_.insert(a.server);
    client_.Send(a);
  }
  void Act(const protocol::Disconnect& a) {
    client_.Disconnect(a.server);
    Answered(a.server);
  }
  void Act(const protocol::StopRole& a) {
    evicted_ = a.evicted;
    End(Status());
  }

  void OnReply(NodeId server, const protocol::PushReply& reply) {
    Answered(server);
    Do(machine_.OnPushReply(loop_.Now(), server, reply));
  }
  void Answered(NodeId server) {
    if (asked_.erase(server) == 0 || !asked_.empty()) return;
    progress_.wait_seconds += Seconds(loop_.Now() - waiting_since_);
    vigil_.reset();
  }

  void End(Status outcome) {
    over_ = true;
    outcome_ = std::move(outcome);
    loop_.Stop();
  }

  // One split is being trained, one is ready, one is asked for or being decoded: asking takes a heartbeat,
  // and that as long as a small model takes for a split.
  static constexpr uint32_t kLeasesAhead = 3;
  // Between two heartbeats that could not wait for the interval.
  static constexpr Duration kUrgentGap = std::chrono::milliseconds(10);

  net::Loop& loop_;
  CoordinatorClient& coordinator_client_;
  Job job_;
  protocol::SliceTable table_;
  std::unique_ptr<net::Transport> transport_;
  protocol::Parameters parameters_;
  trainer::Trainer trainer_;
  trainer::RunTrainer runs_;
  ps::Client client_;
  SplitLoader loader_;
  protocol::WorkerProgress progress_;
  InputErrors intake_;
  protocol::Worker machine_;
  NodeId node_;
  Duration interval_{};
  Time last_heartbeat_{0};
  std::set<NodeId> asked_;  // servers that have not answered yet
  Time waiting_since_{0};   // for the first of them
  std::optional<net::Loop::Vigil> vigil_;
  bool computing_ = false;  // what follows a batch is being done
  std::set<uint64_t> wanted_;
  std::map<uint64_t, std::unique_ptr<PreparedSplit>> splits_;
  bool over_ = false;
  bool evicted_ = false;
  Status outcome_;
};

}  // namespace

std::unique_ptr<net::Transport> MakeTransport(net::Loop& loop, const RoleOptions& options) {
  net::TransportOptions transport = options.transport;
  transport.token = options.coordinator_client.token;
  return net::MakeUcxTransport(loop, transport);
}

Status RunWorker(const RoleOptions& options) {
  bool evicted = true;
  uint64_t job_hash = 0;
  // An evicted worker (paused for too long, say) comes back as a new node.
  while (evicted) {
    evicted = false;
    net::Loop loop;
    CoordinatorClient coordinator_client(loop, options.coordinator_client);
    // Where other workers find this one, if the job has no servers: it has to be known before the job is.
    const auto transport = MakeTransport(loop, options);
    collective::Port port;
    auto listener = transport->Listen(options.listen, [&port](std::unique_ptr<net::Connection> caller) {
      return port.Adopt(std::move(caller));
    });
    if (!listener.ok()) return listener.status();
    auto joined =
        coordinator_client.Join(MakeJoinRequest(protocol::Role::kWorker, (*listener)->address(), job_hash));
    if (!joined.ok()) return JoinError(joined.status());
    spdlog::info("worker {} joined as node {}", joined->index, joined->node.value);
    Job job = Job::FromText(joined->job, "job");
    job_hash = job.Hash();
    transport->TrustNetwork(job.trusted_network);
    auto source = job.OpenSource();
    if (!source.ok()) return source.status();
    if (!job.strategy.on_servers()) {
      const Status outcome = RunGroupMember(loop, coordinator_client, *transport, port, std::move(job),
                                            std::move(*source), options, *joined, &evicted);
      if (!outcome.ok()) return outcome;
      continue;
    }
    listener->reset();
    WorkerRole role(loop, coordinator_client, std::move(job), std::move(*source), options);
    SignalWatch signals([&](int) { loop.Post([&role] { role.Leave(); }); });
    const Status outcome = role.Run(*joined, &evicted);
    if (!outcome.ok()) return outcome;
  }
  return Status();
}

}  // namespace leat::train

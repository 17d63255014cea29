#include "roles/group_member_role.h"

#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "collective/mpi.h"
#include "collective/peer_all_reduce.h"
#include "job/precision.h"
#include "launcher/signals.h"
#include "net/address.h"
#include "protocol/member/group_member.h"
#include "roles/background_thread.h"
#include "roles/input/input_errors.h"
#include "roles/input/split_loader.h"
#include "roles/role.h"
#include "roles/shard_files.h"
#include "step/state_broadcast.h"
#include "step/step_reducer.h"
#include "step/trainer.h"

namespace leat::train {
namespace {

// Whether every member on this host has a processor for its loop beside the one that it computes on. Where it
// has not, two threads would only take turns.
bool ThreadToSpare(const std::string& mine, const std::vector<std::string>& addresses) {
  const auto here = std::ranges::count_if(
      addresses, [&](const std::string& other) { return net::HostOf(other) == net::HostOf(mine); });
  cpu_set_t allowed;
  const int processors = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  return processors >= 2 * here;
}

// The shell around protocol::GroupMember. Everything runs on the loop's thread but decoding, files, the calls
// to the coordinator and, where there are processors for it, batches: then the members' bytes move while this
// one computes.
class GroupMemberRole {
 public:
  GroupMemberRole(net::Loop& loop, CoordinatorClient& coordinator_client, net::Transport& transport,
                  collective::Port& port, Job job, std::unique_ptr<stream::Source> source,
                  const RoleOptions& options, const LeatMpiModule* mpi)
      : loop_(loop),
        coordinator_client_(coordinator_client),
        transport_(transport),
        port_(port),
        mpi_(mpi),
        exit_status_(options.exit_status),
        job_(std::move(job)),
        table_(job_.Slices()),
        parameters_(table_, net::MakeSharedBuffer),
        trainer_(*job_.model, parameters_, job_.Plan(WithPrecision(job_, options.plan)),
                 job_.optimizer.clipping),
        reducer_(loop, trainer_, parameters_,
                 {.sum = job_.strategy.sum,
                  .full_batch = job_.strategy.full_run,
                  .deterministic = job_.strategy.deterministic,
                  .overlap = !job_.optimizer.clipping.any()}),
        loader_(loop, std::move(source), job_.schema,
                [this](uint64_t lease, Result<std::unique_ptr<PreparedSplit>> split) {
                  OnSplit(lease, std::move(split));
                }),
        intake_(job_, options.read_timeout, &progress_),
        machine_({.table = table_,
                  .optimizer = job_.optimizer,
                  .strategy = job_.strategy,
                  .parameters = &parameters_}) {}
  ~GroupMemberRole() { *here_ = false; }

  Status Run(const protocol::JoinReply& joined, bool* evicted) {
    node_ = joined.node;
    interval_ = joined.heartbeat_interval;
    machine_.OnJoined(joined.node);
    intake_.OpenDeadLetters(node_);
    SendHeartbeat();
    Tick();
    loop_.Run();
    if (mpi_ != nullptr && group_ != nullptr) EndMpi();
    *evicted = evicted_ && outcome_.ok();
    return outcome_;
  }

  void Leave() {
    leaving_ = true;
    machine_.Leave();
  }

 private:
  // On the loop, as long as this is there.
  void Post(std::function<void()> work) {
    loop_.Post([this, here = here_, work = std::move(work)] {
      if (*here && !over_) work();
    });
  }

  // ---- control plane
  void SendHeartbeat() {
    if (coordinator_client_.busy() || over_) return;
    last_heartbeat_ = loop_.Now();
    auto heartbeat = machine_.MakeHeartbeat();
    heartbeat.progress = progress_;
    heartbeat.progress.cpu_seconds = OwnCpuSeconds();
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
      Do(machine_.OnHeartbeatReply(*heartbeat));
    }
  }

  void Tick() {
    if (over_) return;
    const Time now = loop_.Now();
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
    Do(machine_.OnSplitReady(lease));
  }

  // It is asked for again after a while: nobody else has this lane.
  void OnUnreadable(uint64_t lease, const Status& why) {
    if (auto status = intake_.OnUnreadable(loop_.Now(), lease, why); !status.ok())
      return End(std::move(status));
    loop_.After(intake_.retry_interval(), [this, lease] {
      if (!over_) Do(machine_.OnSplitFailed(lease));
    });
  }

  // ---- what the machine wants
  void Do(const protocol::GroupMemberActions& actions) {
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
    auto node = splits_.extract(a.lease);
    if (!node) return;
    if (computing_ && *computing_ == a.lease) {
      dropped_ = std::move(node.mapped());
    } else {
      loader_.Recycle(std::move(node.mapped()));
    }
  }

  void Act(const protocol::LeaveGroup&) {
    reducer_.SetGroup(nullptr);
    // What MPI has begun ends with this role.
    if (group_ == nullptr || mpi_ != nullptr) return;
    group_->Abort(Status(Code::kAborted, "a new group is being formed"));
    // It may be what calls us.
    retired_.push_back(std::move(group_));
    Post([this] { retired_.clear(); });
  }
  void Act(const protocol::JoinGroup& a) {
    std::vector<std::string> addresses;
    for (const auto& member : a.members) addresses.push_back(member.address);
    spdlog::info("group {}: rank {} of {}{}", a.group, a.rank, a.members.size(), mpi_ ? ", by MPI" : "");
    const auto formed = [this, group = a.group](const Status& status) {
      if (over_) return;
      if (!status.ok()) spdlog::warn("group {}: {}", group, status.ToString());
      if (status.ok()) reducer_.SetGroup(group_.get());
      Do(machine_.OnConnected(group, status));
    };
    in_turns_ = !ThreadToSpare(addresses[a.rank], addresses);
    if (mpi_ != nullptr) return JoinMpi(a, formed);
    group_ = collective::MakePeerAllReduce(
        loop_, transport_, port_, {.group = a.group, .rank = a.rank, .addresses = std::move(addresses)},
        formed);
    // In one shot there is nothing to be moved while this member computes.
    in_turns_ = in_turns_ || (group_->leaves_apart() && !job_.strategy.deterministic);
  }
  void JoinMpi(const protocol::JoinGroup& a, const std::function<void(const Status&)>& formed) {
    if (group_ != nullptr) {
      return Post([formed] { formed({Code::kFailedPrecondition, "MPI has one group for the whole job"}); });
    }
    collective::MpiOptions options;
    options.place = {a.rank, static_cast<uint32_t>(a.members.size())};
    options.exit_status_of = exit_status_;
    group_ = collective::MakeMpiAllReduce(loop_, *mpi_, options, formed);
  }
  // MPI lets nobody go by himself, and takes nobody in again.
  void EndMpi() {
    if (evicted_) {
      outcome_ = Status(Code::kAborted, "taken for lost by the coordinator");
    } else if (leaving_ && outcome_.ok()) {
      outcome_ = Status(Code::kAborted, "asked to leave");
    }
    if (!outcome_.ok()) group_->Abort(outcome_);
  }
  void Act(const protocol::BroadcastState& a) {
    parallel::BroadcastState(
        *group_, a.holder, machine_.state(),
        [this, group = a.group](Result<protocol::GroupMember::Snapshot> state) {
          auto shared = std::make_shared<Result<protocol::GroupMember::Snapshot>>(std::move(state));
          WhenIdle([this, group, shared] { Do(machine_.OnStateReceived(group, std::move(*shared))); });
        });
  }

  void Act(const protocol::ComputeLane& a) {
    const PreparedSplit* split = splits_.at(a.lease).get();
    computing_ = a.lease;
    const auto compute = [this, a, split, epoch = reducer_.epoch()] {
      const auto& cut = split->lease.cut;
      const trainer::Rows rows{
          .features = split->rows.features, .labels = split->rows.labels, .truth = split->rows.truth};
      const Time begin = loop_.Now();
      const auto step =
          reducer_.Compute(a, epoch, rows, split->Batch(a.batch), cut.batch_size, RandomSeedOf(cut, a.batch));
      Post([this, a, cut, step, took = loop_.Now() - begin] {
        long_batches_ = took > kLongBatch;
        OnComputed(a, cut, step);
      });
    };
    if (in_turns_ && !long_batches_) {
      compute();
    } else {
      compute_.Post(compute);
    }
  }
  void OnComputed(const protocol::ComputeLane& a, const protocol::Cut& cut,
                  const trainer::StepOutcome& step) {
    computing_.reset();
    if (dropped_ != nullptr) loader_.Recycle(std::move(dropped_));
    if (step.finite) progress_.events += step.events;
    progress_.loss_sum += step.loss_sum;
    progress_.correct += step.correct;
    ++progress_.steps;
    // Only between two batches may anybody look into the trainer.
    if (const Time now = loop_.Now(); now - scored_at_ >= interval_) {
      scored_at_ = now;
      if (job_.model->task() == nn::Task::kBinary) progress_.scores = trainer_.scores_seen().Encode();
      if (job_.schema.has_truth()) progress_.true_scores = trainer_.truths_seen().Encode();
    }
    protocol::BatchOutcome outcome{.disposition = protocol::Disposition::kGradient, .events = step.events};
    if (step.events == 0) outcome.disposition = protocol::Disposition::kEmpty;
    if (!step.finite) {
      outcome.disposition = protocol::Disposition::kRejected;
      ++progress_.rejected_batches;
      spdlog::warn(
          "partition {} offsets {} to {}, batch {}: the gradient is not finite; nothing of its step is "
          "applied",
          cut.partition, cut.begin.offset, cut.end, a.batch);
    }
    for (auto& work : std::exchange(when_idle_, {})) {
      if (!over_) work();
    }
    if (!over_) Do(machine_.OnComputed(a.token, outcome));
  }
  void Act(const protocol::ReduceStep& a) {
    const Time since = loop_.Now();
    reducer_.Reduce(a, [this, since, token = a.token](Result<protocol::ReducedStep> step) {
      progress_.wait_seconds += Seconds(loop_.Now() - since);
      if (!step.ok()) spdlog::warn("step: {}", step.status().ToString());
      if (over_) return;
      const auto actions = machine_.OnReduced(token, std::move(step));
      reducer_.Release();
      Do(actions);
    });
  }
  // A batch that is being computed, for a group that is no more maybe, reads what is about to be replaced.
  void WhenIdle(std::function<void()> work) {
    if (over_) return;
    if (!computing_) return work();
    when_idle_.push_back(std::move(work));
  }

  // ---- files
  void Act(const protocol::LoadSlices& a) {
    files_.Post([this, orders = a.orders] {
      LoadSlices(orders, table_, job_.optimizer,
                 [this](const protocol::SliceOrder& order, Result<protocol::Slice> loaded) {
                   const auto slice = std::make_shared<Result<protocol::Slice>>(std::move(loaded));
                   Post([this, order, slice] {
                     WhenIdle([this, order, slice] { Do(machine_.OnSliceLoaded(order, std::move(*slice))); });
                   });
                 });
    });
  }
  void Act(const protocol::SaveShard& a) {
    files_.Post([this, a] {
      Post([this, report = SaveSlices(a, node_, table_, job_.optimizer)] { machine_.OnShardSaved(report); });
    });
  }

  void Act(const protocol::StopRole& a) {
    evicted_ = a.evicted;
    End(Status());
  }

  void End(Status outcome) {
    over_ = true;
    outcome_ = std::move(outcome);
    loop_.Stop();
  }

  // A loop that is away for longer may be taken for stalled, or lost, in the end.
  static constexpr Duration kLongBatch = std::chrono::milliseconds(500);
  // Between two heartbeats that could not wait for the interval.
  static constexpr Duration kUrgentGap = std::chrono::milliseconds(10);

  net::Loop& loop_;
  CoordinatorClient& coordinator_client_;
  net::Transport& transport_;
  collective::Port& port_;
  const LeatMpiModule* const mpi_;  // null: members reduce over the transport
  const std::function<int(const Status&)> exit_status_;
  Job job_;
  protocol::SliceTable table_;
  protocol::Parameters parameters_;
  trainer::Trainer trainer_;
  parallel::StepReducer reducer_;
  std::unique_ptr<collective::AllReduce> group_;
  std::vector<std::unique_ptr<collective::AllReduce>> retired_;
  SplitLoader loader_;
  protocol::WorkerProgress progress_;
  InputErrors intake_;
  protocol::GroupMember machine_;
  NodeId node_;
  Duration interval_{};
  Time last_heartbeat_{0};
  Time scored_at_{0};
  std::set<uint64_t> wanted_;
  std::map<uint64_t, std::unique_ptr<PreparedSplit>> splits_;
  bool in_turns_ = false;                   // batches are computed on the loop's thread …
  bool long_batches_ = true;                // … unless they keep it from all else for too long
  std::optional<uint64_t> computing_;       // lease
  std::unique_ptr<PreparedSplit> dropped_;  // that it is of, when nobody wants it any more
  std::vector<std::function<void()>> when_idle_;
  bool over_ = false;
  bool leaving_ = false;
  bool evicted_ = false;
  Status outcome_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
  BackgroundThread files_;
  BackgroundThread compute_;  // ends first: what it computes with is all above
};

}  // namespace

Status RunGroupMember(net::Loop& loop, CoordinatorClient& coordinator_client, net::Transport& transport,
                      collective::Port& port, Job job, std::unique_ptr<stream::Source> source,
                      const RoleOptions& options, const protocol::JoinReply& joined, bool* evicted) {
  const LeatMpiModule* mpi = nullptr;
  if (job.strategy.mpi) {
    LEAT_ASSIGN_OR_RETURN(mpi, collective::LoadMpi());
  }
  GroupMemberRole role(loop, coordinator_client, transport, port, std::move(job), std::move(source), options,
                       mpi);
  SignalWatch signals([&](int) { loop.Post([&role] { role.Leave(); }); });
  return role.Run(joined, evicted);
}

}  // namespace leat::train

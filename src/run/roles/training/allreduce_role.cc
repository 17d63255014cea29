#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/exit_status.h"
#include "base/log.h"
#include "base/threads/thread.h"
#include "net/address.h"
#include "protocol/allreduce/group_member.h"
#include "run/roles/background_thread.h"
#include "run/roles/follow/pull_service.h"
#include "run/roles/role.h"
#include "run/roles/shards/saved_slices.h"
#include "run/roles/shards/shard_files.h"
#include "run/roles/training/training_role.h"
#include "train/collective/mpi.h"
#include "train/collective/peer_all_reduce.h"
#include "train/step/step_reducer.h"

namespace leat::roles {
namespace {

// Whether every member on this host has a processor for its loop beside the one that it computes on. Where it
// has not, two threads would only take turns.
bool ThreadToSpare(const std::string& mine, const std::vector<std::string>& addresses) {
  const auto here = std::ranges::count_if(
      addresses, [&](const std::string& other) { return net::HostOf(other) == net::HostOf(mine); });
  return std::cmp_greater_equal(AllowedProcessors(), 2 * here);
}

// The shell around protocol::GroupMember. Everything runs on the loop's thread but decoding, files, the calls
// to the coordinator and, where there are processors for it, batches: then the members' bytes move while this
// one computes.
class AllReduceRole final : public TrainingRole {
 public:
  AllReduceRole(net::Loop& loop, Membership& membership, net::Transport& transport, collective::Port& port,
                job::Job job, OpenedStream stream, std::unique_ptr<ShardFiles> files,
                const RoleOptions& options, const LeatMpiModule* mpi)
      : TrainingRole(loop, membership, std::move(job), std::move(stream), options),
        transport_(transport),
        port_(port),
        mpi_(mpi),
        reducer_(loop, trainer_, parameters_,
                 {.sum = job_.strategy.sum,
                  .full_batch = job_.strategy.full_run,
                  .deterministic = job_.strategy.deterministic,
                  .overlap = !job_.optimizer.clipping.any()}),
        shard_files_(std::move(files)),
        machine_({.table = table_,
                  .optimizer = job_.optimizer,
                  .strategy = job_.strategy,
                  .parameters = &parameters_,
                  .allocate = [this](size_t bytes) { return copies_.Take(bytes); },
                  .late_labels = job_.schema.has_late_labels()}),
        pulls_(port, parameters_, machine_) {
    reducer_.RecordTo(track_);
  }
  ~AllReduceRole() override { shard_files_->Abort(); }

  Status Run() {
    machine_.OnJoined(membership_.node(), membership_.joined().term);
    const Status outcome = RunMember({.on_leave = [this] { Leave(); },
                                      .urgent = [this] { return machine_.HeartbeatUrgent(); },
                                      .quiet = [this] { return machine_.Idle(); },
                                      // While a member hears of anything else, all may wait for it.
                                      .steady = [this] { return machine_.Steady(); }});
    return mpi_ != nullptr && group_ != nullptr ? EndMpi(outcome) : outcome;
  }

 private:
  // ---- control plane
  void Leave() {
    leaving_ = true;
    machine_.Leave();
    membership_.Update();
  }

  protocol::WorkerHeartbeat MakeHeartbeat() override {
    auto heartbeat = machine_.MakeHeartbeat();
    Report(&heartbeat, !computing_);
    group_wait_.AddRunningWait(loop_.Now(), &heartbeat.progress);
    return heartbeat;
  }
  void OnHeartbeatReply(const protocol::WorkerHeartbeatReply& reply) override {
    if (const auto told = ShardFiles::Told(reply)) shard_files_->Redirect(*told, membership_.coordinator());
    PrepareSave(reply.checkpoint);
    ExecuteAll(machine_.OnHeartbeatReply(reply));
    Predict(reply, machine_.term(), machine_.view());
  }
  void OnSplitReady(uint64_t lease) override { ExecuteAll(machine_.OnSplitReady(lease)); }
  void OnSplitFailed(uint64_t lease) override { ExecuteAll(machine_.OnSplitFailed(lease)); }
  bool MayScore() const override { return machine_.holds() && !computing_; }
  bool Busy() const override { return computing_.has_value(); }

  // The order comes some steps before the one that is saved.
  void PrepareSave(const std::optional<protocol::CheckpointOrder>& order) {
    const uint64_t id = order ? order->id : 0;
    if (id == std::exchange(prepared_for_, id)) return;
    copies_.Drop();
    if (id == 0) return;
    files_.Post([this, sizes = machine_.BytesToSave()] { copies_.Prepare(sizes); });
  }

  // ---- actions of the machine
  void ExecuteAll(const protocol::GroupMemberActions& actions) {
    TrainingRole::ExecuteAll(actions, [this](const auto& action) { Execute(action); });
  }

  using TrainingRole::Execute;
  void Execute(const protocol::DropSplit& a) {
    if (computing_ != a.lease) return TrainingRole::Execute(a);
    wanted_.erase(a.lease);
    if (auto node = splits_.extract(a.lease)) dropped_ = std::move(node.mapped());
  }

  void Execute(const protocol::LeaveGroup&) {
    reducer_.SetGroup(nullptr);
    EndWait();  // the reduction will not say that it is over
    // Operations that MPI has begun end with this role.
    if (group_ == nullptr || mpi_ != nullptr) return;
    group_->Abort(Status(Code::kAborted, "a new group is being formed"));
    // It may be what calls us.
    retired_.push_back(std::move(group_));
    Post([this] { retired_.clear(); });
  }
  void Execute(const protocol::JoinGroup& a) {
    std::vector<std::string> addresses;
    for (const auto& member : a.members) addresses.push_back(member.address);
    spdlog::info("group {}: rank {} of {}{}", a.group, a.rank, a.members.size(), mpi_ ? ", by MPI" : "");
    const auto formed = [this, group = a.group](const Status& status) {
      if (membership_.over()) return;
      if (!status.ok()) spdlog::warn("group {}: {}", group, status.ToString());
      if (status.ok()) reducer_.SetGroup(group_.get());
      ReportUnreachable(group);
      ExecuteAll(machine_.OnConnected(group, status));
    };
    in_turns_ = !ThreadToSpare(addresses[a.rank], addresses);
    if (mpi_ != nullptr) return JoinMpi(a, formed);
    group_ = collective::MakePeerAllReduce(
        loop_, transport_, port_, {.group = a.group, .rank = a.rank, .addresses = std::move(addresses)},
        formed);
    // In one shot there is nothing to be moved while this member computes.
    in_turns_ = in_turns_ || (group_->supports_gather_only() && !job_.strategy.deterministic);
  }
  void ReportUnreachable(uint64_t group) {
    if (group_ == nullptr || !group_->unreachable()) return;
    machine_.OnUnreachable(group, *group_->unreachable());
  }
  void JoinMpi(const protocol::JoinGroup& a, const std::function<void(const Status&)>& formed) {
    if (group_ != nullptr) {
      return Post([formed] { formed({Code::kFailedPrecondition, "MPI has one group for the whole job"}); });
    }
    collective::MpiOptions options;
    options.place = {a.rank, static_cast<uint32_t>(a.members.size())};
    options.exit_status_of = [](const Status& why) { return ExitStatusOf(why.code()); };
    group_ = collective::MakeMpiAllReduce(loop_, *mpi_, options, formed);
  }
  // MPI lets nobody go by himself, and takes nobody in again.
  Status EndMpi(Status outcome) {
    if (membership_.evicted()) {
      outcome = Status(Code::kUnavailable, "taken for lost by the coordinator");
    } else if (leaving_ && outcome.ok()) {
      outcome = Status(Code::kAborted, "asked to leave");
    }
    if (!outcome.ok()) group_->Abort(outcome);
    return outcome;
  }
  void Execute(const protocol::BroadcastState& a) {
    step::BroadcastState(*group_, a.holder, machine_.state(),
                         [this, group = a.group](Result<protocol::GroupMember::Snapshot> state) {
                           if (!state.ok()) ReportUnreachable(group);
                           auto shared =
                               std::make_shared<Result<protocol::GroupMember::Snapshot>>(std::move(state));
                           WhenIdle([this, group, shared] {
                             ExecuteAll(machine_.OnStateReceived(group, std::move(*shared)));
                           });
                         });
  }

  void Execute(const protocol::ComputeLane& a) {
    const PreparedSplit* split = splits_.at(a.lease).get();
    computing_ = a.lease;
    const auto compute = [this, a, split, epoch = reducer_.epoch(), batches = progress_.steps] {
      const auto& cut = split->lease.cut;
      const step::Rows rows = RowsOf(*split);
      const Time begin = loop_.Now();
      DelayBatch(job_.debug, batches);
      const auto step =
          reducer_.Compute(a, epoch, rows, split->Batch(a.batch), cut.batch_size, RandomSeedOf(cut, a.batch));
      if (predictions_ != nullptr) predictions_->OnBatch(*split, a.batch, true, true, !step.finite);
      if (step.finite) share_.Add(rows, split->Batch(a.batch), cut.batches());
      Post([this, a, cut, step, took = loop_.Now() - begin] {
        long_batches_ = took > kLongBatch;
        progress_.compute_seconds += Seconds(took);
        OnComputed(a, cut, step);
      });
    };
    if (in_turns_ && !long_batches_) {
      compute();
    } else {
      compute_.Post(compute);
    }
  }
  void OnComputed(const protocol::ComputeLane& a, const protocol::Cut& cut, const step::StepOutcome& step) {
    computing_.reset();
    if (dropped_ != nullptr) loader_.Recycle(std::move(dropped_));
    // Only between two batches may anybody look into the trainer and the share.
    const protocol::BatchOutcome outcome = Count(step, cut, a.batch, "its step");
    if (const Time now = loop_.Now(); now - scored_at_ >= membership_.heartbeat_interval()) {
      scored_at_ = now;
      ReportScores(&progress_);
    }
    for (auto& work : std::exchange(when_idle_, {})) {
      if (!membership_.over()) work();
    }
    const auto next = [this, token = a.token, outcome] {
      if (!membership_.over()) ExecuteAll(machine_.OnComputed(token, outcome));
    };
    predictions_ == nullptr ? next() : predictions_->WhenRoom(next);
  }
  void Execute(const protocol::ReduceStep& a) {
    group_wait_.Begin(loop_.Now());
    reducer_.Reduce(a, [this, token = a.token, group = a.group](Result<protocol::ReducedStep> step) {
      EndWait();
      if (!step.ok()) spdlog::warn("step: {}", step.status().ToString());
      ReportUnreachable(group);
      if (membership_.over()) return;
      if (step.ok() && gradients_.wanted()) gradients_.Take(parameters_);
      const auto actions = machine_.OnReduced(token, std::move(step));
      reducer_.Release();
      ExecuteAll(actions);
    });
  }
  void EndWait() {
    const Time now = loop_.Now();
    const auto since = group_wait_.End(now);
    if (since && track_->on()) track_->Add({.kind = timeline::Kind::kWait, .begin = *since, .end = now});
  }
  // A batch that is being computed, for a group that is no more maybe, reads what is about to be replaced.
  void WhenIdle(std::function<void()> work) {
    if (membership_.over()) return;
    if (!computing_) return work();
    when_idle_.push_back(std::move(work));
  }

  // ---- files
  void Execute(const protocol::LoadSlices& a) {
    files_.Post([this, orders = a.orders] {
      shard_files_->Load(orders, table_, job_.optimizer,
                         [this](const protocol::SliceOrder& order, Result<protocol::Slice> loaded) {
                           const auto slice = std::make_shared<Result<protocol::Slice>>(std::move(loaded));
                           Post([this, order, slice] {
                             WhenIdle([this, order, slice] {
                               ExecuteAll(machine_.OnSliceLoaded(order, std::move(*slice)));
                             });
                           });
                         });
    });
  }
  void Execute(const protocol::SaveShard& a) {
    files_.Post([this, a]() mutable {
      const auto read = [] {};  // the machine keeps no copies
      timeline::Scope scope(files_track_, timeline::Kind::kCheckpoint);
      scope.span().number = a.order.id;
      const auto done = [this](protocol::ShardReport report) {
        Post([this, report = std::move(report)] {
          copies_.Drop();
          machine_.OnShardSaved(report);
          membership_.Update();
        });
      };
      shard_files_->Save(std::move(a), membership_.node(), table_, job_.optimizer, read, done);
    });
  }

  // A loop that is away for longer may be taken for stalled, or lost, in the end.
  static constexpr Duration kLongBatch = std::chrono::milliseconds(500);

  timeline::Track* const track_ = membership_.recorder().MakeTrack("group");  // used by the loop's thread
  timeline::Track* const files_track_ = membership_.recorder().MakeTrack("files");
  net::Transport& transport_;
  collective::Port& port_;
  const LeatMpiModule* const mpi_;  // null: members reduce over the transport
  step::StepReducer reducer_;
  std::unique_ptr<collective::AllReduce> group_;
  std::vector<std::unique_ptr<collective::AllReduce>> retired_;
  const std::unique_ptr<ShardFiles> shard_files_;  // read and written on the thread for files
  PreparedMemory copies_{[](size_t bytes) { return Buffer(bytes); }};
  uint64_t prepared_for_ = 0;  // the order of a checkpoint; 0: none
  GroupWait group_wait_{&progress_};
  protocol::GroupMember machine_;
  PullService pulls_;
  Time scored_at_{0};
  bool in_turns_ = false;                   // batches are computed on the loop's thread …
  bool long_batches_ = true;                // … unless they keep it from all else for too long
  std::optional<uint64_t> computing_;       // lease
  std::unique_ptr<PreparedSplit> dropped_;  // split of the computed batch, when nobody wants it any more
  std::vector<std::function<void()>> when_idle_;
  BackgroundThread files_{kNiceWithFiles};
  BackgroundThread compute_;  // ends first: what it computes with is all above
};

}  // namespace

Status RunAllReduceWorker(net::Loop& loop, Membership& membership, net::Transport& transport,
                          collective::Port& port, job::Job job, OpenedStream stream,
                          std::unique_ptr<ShardFiles> files, const RoleOptions& options) {
  const LeatMpiModule* mpi = nullptr;
  if (job.strategy.mpi) {
    LEAT_ASSIGN_OR_RETURN(mpi, collective::LoadMpi());
  }
  return AllReduceRole(loop, membership, transport, port, std::move(job), std::move(stream), std::move(files),
                       options, mpi)
      .Run();
}

}  // namespace leat::roles

// Work of workers in all strategies: they read the splits of their leases, count what they train, and send
// predictions. The use of gradients differs: WorkerRole pushes them to servers (protocol::Worker),
// AllReduceRole reduces them with the other members of its group (protocol::GroupMember).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <variant>

#include "job/job.h"
#include "protocol/actions.h"
#include "run/roles/input/input_errors.h"
#include "run/roles/input/split_loader.h"
#include "run/roles/membership.h"
#include "run/roles/predictions/worker_predictions.h"
#include "run/roles/role.h"
#include "run/roles/shards/shard_files.h"
#include "run/roles/training/waits.h"
#include "show/tensorboard/events.h"
#include "train/collective/port.h"
#include "train/step/batch_log.h"
#include "train/step/longest_step.h"
#include "train/step/share_log.h"
#include "train/step/trainer.h"

namespace leat::roles {

// The distribution of a worker's gradients, when the coordinator asks for it.
class GradientReport {
 public:
  void OnReply(const protocol::WorkerHeartbeatReply& reply) { wanted_ = wanted_ || reply.gradients_wanted; }
  // Whether the next gradients are to be taken.
  bool wanted() const { return wanted_; }
  void Take(const protocol::Parameters& parameters) {
    wanted_ = false;
    taken_ = tensorboard::EncodeGradients(parameters.table().variables,
                                          [&](size_t v) { return parameters.gradients(v); });
  }
  // Once: if the heartbeat is lost, the coordinator asks again.
  void Fill(protocol::WorkerHeartbeat* heartbeat) { heartbeat->gradients = std::exchange(taken_, {}); }

 private:
  bool wanted_ = false;
  Bytes taken_;
};

// Loop's thread only.
class TrainingRole {
 protected:
  TrainingRole(net::Loop& loop, Membership& membership, job::Job job, OpenedStream stream,
               const RoleOptions& options);
  virtual ~TrainingRole();

  // ---- the state machine's part
  virtual protocol::WorkerHeartbeat MakeHeartbeat() = 0;
  virtual void OnHeartbeatReply(const protocol::WorkerHeartbeatReply& reply) = 0;
  virtual void OnSplitReady(uint64_t lease) = 0;
  virtual void OnSplitFailed(uint64_t lease) = 0;
  virtual bool MayScore() const = 0;  // the trainer is free, and has the newest values that there are
  virtual bool Busy() const = 0;      // it waits for something else than input

  // Returns once the job is over, this node is evicted, or the coordinator is lost. `callbacks`: without the
  // heartbeat and its reply.
  Status RunMember(Membership::Callbacks callbacks);
  // Fills in the progress so far. `scores`: nobody else looks into the trainer meanwhile.
  void Report(protocol::WorkerHeartbeat* heartbeat, bool scores);
  void ReportScores(protocol::WorkerProgress* progress) const;
  // Follows the reply's orders about predictions, for a machine with this term and this view.
  void Predict(const protocol::WorkerHeartbeatReply& reply, uint64_t term, const protocol::View& view);

  // Executes the machine's actions in order, unless the membership ends. `execute`: executes one.
  template <class Actions, class Visitor>
  void ExecuteAll(const Actions& actions, const Visitor& execute) {
    for (const auto& action : actions) {
      if (membership_.over()) return;
      std::visit(execute, action);
    }
    input_flow_.OnReady(loop_.Now(), splits_.size(), Busy());
    membership_.Update();
  }
  void Execute(const protocol::PrepareSplit& action);
  void Execute(const protocol::DropSplit& action);
  void Execute(const protocol::StopRole& action) { membership_.Stop(action.evicted); }
  // Calls `work` on the loop, as long as this is there and the membership lasts.
  void Post(std::function<void()> work);

  // Counts a batch that was computed. `lost`: name of the update that is not applied if its gradient is not
  // finite.
  protocol::BatchOutcome Count(const step::StepOutcome& step, const protocol::Cut& cut, uint32_t batch,
                               const char* lost);

  net::Loop& loop_;
  Membership& membership_;
  timeline::Track* const compute_track_ = membership_.recorder().MakeTrack("compute");
  const job::Job job_;
  OpenedStream stream_;  // its source is the loader's
  protocol::SliceTable table_;
  protocol::Parameters parameters_;
  step::Trainer trainer_;
  step::ShareLog share_;
  SplitLoader loader_;
  protocol::WorkerProgress progress_;
  step::LongestStep longest_step_;
  step::BatchLog batches_;
  GradientReport gradients_;
  InputErrors input_errors_;
  InputFlow input_flow_{&progress_};
  bool leaving_ = false;  // told by the coordinator, or a member of a group by anybody
  uint32_t plans_ = 0;    // graphs that the log has
  std::set<uint64_t> wanted_;
  std::map<uint64_t, std::unique_ptr<PreparedSplit>> splits_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
  std::unique_ptr<WorkerPredictions> predictions_;  // null: the job publishes none

 private:
  void OnControlReply(const protocol::ControlReply& reply);
  void OnSplit(uint64_t lease, Result<std::unique_ptr<PreparedSplit>> split);
  void OnUnreadable(uint64_t lease, const Status& why);
  void LogNewPlans();
};

// `leat worker` of a job without servers: holds all parameters and makes steps in a group with other members.
// Runs a joined member until the job is over, it is evicted, or a signal asks it to leave. Other members
// connect to `port`, at the address of its join. If the job reduces by MPI, this function may end the
// process: on a failure, or when the member leaves while others continue.
Status RunAllReduceWorker(net::Loop& loop, Membership& membership, net::Transport& transport,
                          collective::Port& port, job::Job job, OpenedStream stream,
                          std::unique_ptr<ShardFiles> files, const RoleOptions& options);

}  // namespace leat::roles

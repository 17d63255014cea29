// Work of workers in all strategies: they read the splits of their leases, count what they train, and send
// predictions. The use of gradients differs: see protocol::Worker and protocol::GroupMember.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "job/job.h"
#include "protocol/actions.h"
#include "run/roles/input/input_errors.h"
#include "run/roles/input/input_flow.h"
#include "run/roles/input/open_stream.h"
#include "run/roles/input/split_loader.h"
#include "run/roles/membership.h"
#include "run/roles/predictions/worker_predictions.h"
#include "run/roles/recording/gradient_report.h"
#include "run/roles/worker_role.h"
#include "train/step/batch_log.h"
#include "train/step/longest_step.h"
#include "train/step/share_log.h"
#include "train/step/trainer.h"

namespace leat::roles {

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

  // Returns once the job is over, this node is evicted, or the coordinator is lost. `callbacks`: without the
  // heartbeat and its reply.
  Status RunMember(Membership::Callbacks callbacks);
  // Fills in the progress so far. `scores`: nobody else looks into the trainer meanwhile.
  void Report(protocol::WorkerHeartbeat* heartbeat, bool scores);
  void ReportScores(protocol::WorkerProgress* progress) const;
  // Follows the reply's orders about predictions, for a machine with this term and this view.
  void Predict(const protocol::WorkerHeartbeatReply& reply, uint64_t term, const protocol::View& view);

  void Act(const protocol::PrepareSplit& a);
  void Act(const protocol::DropSplit& a);
  void Act(const protocol::StopRole& a) { membership_.Stop(a.evicted); }

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
  void NotePlans();
};

}  // namespace leat::roles

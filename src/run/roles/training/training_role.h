// Work of workers in all strategies: they read the splits of their leases, count what they train, and send
// predictions. The use of gradients differs: WorkerRole pushes them to servers (protocol::Worker),
// AllReduceRole reduces them with the other members of its group (protocol::GroupMember).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/recorder/recorder.h"
#include "job/job.h"
#include "net/loop.h"
#include "protocol/actions.h"
#include "protocol/messages_control.h"
#include "run/roles/input/split_loader.h"
#include "run/roles/membership.h"
#include "run/roles/predictions/worker_predictions.h"
#include "run/roles/role.h"
#include "run/roles/shards/shard_files.h"
#include "show/tensorboard/events.h"
#include "train/collective/port.h"
#include "train/step/reports.h"
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

// ---- waiting times of a worker, which are added to the progress that it reports, and that must outlive them

// Counts what a worker reads, and how long it has nothing to train.
class InputFlow {
 public:
  explicit InputFlow(protocol::WorkerProgress* progress) : progress_(progress) {}

  void OnSplit(const PreparedSplit& split) {
    progress_->input_records += split.lease.cut.events();
    progress_->input_bytes += split.bytes;
    progress_->decode_seconds += Seconds(split.decoding);
    progress_->unjoined += split.rows.unjoined;
    progress_->lost_to_retention += split.expired;
  }
  // To be called when the number of splits that can be trained has changed. `busy`: the worker waits for
  // something else.
  void OnReady(Time now, size_t splits, bool busy) {
    progress_->splits_ready = static_cast<uint32_t>(splits);
    const bool starved = splits == 0 && !busy;
    if (starved && !since_) since_ = now;
    if (!starved && since_) {
      progress_->input_wait_seconds += Seconds(now - *since_);
      since_.reset();
    }
  }

  // Adds a wait that is not over to a report.
  void AddRunningWait(Time now, protocol::WorkerProgress* report) const {
    if (since_) report->input_wait_seconds += Seconds(now - *since_);
  }

 private:
  protocol::WorkerProgress* progress_;
  std::optional<Time> since_;  // it has nothing to train
};

// How long a member waits for the others of its group.
class GroupWait {
 public:
  explicit GroupWait(protocol::WorkerProgress* progress) : progress_(progress) {}

  // A reduction begins.
  void Begin(Time now) { since_ = now; }
  // It is over, or the group is left before. Returns when it began; nothing if there is none.
  std::optional<Time> End(Time now) {
    if (since_) progress_->wait_seconds += Seconds(now - *since_);
    return std::exchange(since_, std::nullopt);
  }
  // Adds a wait that is not over to a report.
  void AddRunningWait(Time now, protocol::WorkerProgress* report) const {
    if (since_) report->wait_seconds += Seconds(now - *since_);
  }

 private:
  protocol::WorkerProgress* progress_;
  std::optional<Time> since_;
};

// How long a worker waits for servers. While it waits, its loop polls (net::Loop::BusyPoll).
class ServerWaits {
 public:
  // `track`: where a wait for all servers is recorded.
  ServerWaits(net::Loop& loop, protocol::WorkerProgress* progress, timeline::Track* track)
      : loop_(loop), progress_(progress), track_(track) {}

  bool any() const { return !asked_.empty(); }
  // A server is asked.
  void Begin(NodeId server) {
    if (asked_.empty()) {
      since_ = loop_.Now();
      busy_poll_.emplace(loop_);
    }
    asked_.emplace(server, loop_.Now());
  }
  // It has answered, or will not. `view`: has the number of the server.
  void End(NodeId server, const protocol::View& view) {
    const auto asked = asked_.extract(server);
    if (!asked) return;
    const Time now = loop_.Now();
    if (const protocol::Member* const member = view.Find(server)) Count(*member, now - asked.mapped());
    if (!asked_.empty()) return;
    progress_->wait_seconds += Seconds(now - since_);
    if (track_->on()) track_->Add({.kind = timeline::Kind::kWait, .begin = since_, .end = now});
    busy_poll_.reset();
  }
  void AddRunningWait(Time now, protocol::WorkerProgress* report) const {
    if (any()) report->wait_seconds += Seconds(now - since_);
  }

 private:
  void Count(const protocol::Member& server, Duration wait) {
    auto& waits = progress_->server_waits;
    auto at = std::ranges::lower_bound(waits, server.index, {}, &protocol::ServerWait::ps);
    if (at == waits.end() || at->ps != server.index) at = waits.insert(at, {.ps = server.index});
    at->seconds += Seconds(wait);
  }

  net::Loop& loop_;
  protocol::WorkerProgress* const progress_;
  timeline::Track* const track_;
  std::map<NodeId, Time> asked_;  // servers that have not answered yet, and since when
  Time since_{0};                 // for the first of them
  std::optional<net::Loop::BusyPoll> busy_poll_;
};

// ---- the role

// Loop's thread only.
class TrainingRole {
 protected:
  TrainingRole(net::Loop& loop, Membership& membership, job::Job job, OpenedStream stream,
               const RoleOptions& options);
  virtual ~TrainingRole() {
    *here_ = false;
    stream_.Abort();
  }

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

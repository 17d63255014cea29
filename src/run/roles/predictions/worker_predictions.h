// The predictions of a worker: the scores of its runs go to the feeds that publish them, before the runs are
// pushed, and splits whose scores are lost are scored again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "job/job.h"
#include "net/loop.h"
#include "protocol/messages_control.h"
#include "run/roles/input/split_loader.h"
#include "run/roles/predictions/score_sender.h"
#include "run/roles/role.h"
#include "train/step/trainer.h"

namespace leat::roles {

inline step::Rows RowsOf(const PreparedSplit& split) {
  return {.features = split.rows.features, .labels = split.rows.labels, .truth = split.rows.truth};
}

// The scores of a run, put together from those of its batches.
class RunScoring {
 public:
  // Forgets its scores. `rescored`: as in RunScores.
  void Start(const protocol::Cut& cut, uint32_t run, bool rescored);
  // `predictions`: of the rows of the split's batch, in order, with the same number for each.
  void Add(const PreparedSplit& split, uint32_t batch, std::span<const float> predictions);
  protocol::RunScores Take();

 private:
  protocol::RunScores scores_;
};

// Loop's thread only, but OnBatch, which may be called where the trainer computes.
class WorkerPredictions {
 public:
  struct Callbacks {
    std::function<std::string()> coordinator;  // the address at which it was reached last
    // The trainer is free, and has the values of the servers.
    std::function<bool()> may_score;
    std::function<void(const protocol::Lease&)> prepare;  // answered by OnSplit or OnUnreadable
    std::function<void(std::unique_ptr<PreparedSplit>)> recycle;
  };
  WorkerPredictions(net::Loop& loop, const job::Job& job, step::Trainer& trainer, const RoleOptions& options,
                    Callbacks callbacks);
  ~WorkerPredictions() { *here_ = false; }

  void Fill(protocol::WorkerHeartbeat* heartbeat) const;
  // `view`: the newest.
  void OnHeartbeatReply(const protocol::WorkerHeartbeatReply& reply, const protocol::View& view);

  // Whether the split is one that is scored again.
  bool Owns(uint64_t lease) const { return rescores_.contains(lease); }
  void OnSplit(std::unique_ptr<PreparedSplit> split);
  void OnUnreadable(uint64_t lease) { rescores_.erase(lease); }  // it is leased again

  // The trainer has scored and trained a batch. With the last batch of a run, or one that is rejected and so
  // ends it, the scores of the run are sent.
  void OnBatch(const PreparedSplit& split, uint32_t batch, bool first, bool last, bool rejected);
  // Calls `f`, which follows the batch, at once, or when there is room for its scores. One at a time.
  void WhenRoom(std::function<void()> f);
  // Waits for a while until feeds have taken all scores.
  void Flush() { sender_.Flush(kFlush); }

 private:
  struct Again {
    protocol::Lease lease;
    std::unique_ptr<PreparedSplit> split;  // null: it is being read
  };
  void OnRoom();
  void ScoreBatch(const PreparedSplit& split, uint32_t batch);
  void ScoreAgain(uint64_t lease, uint32_t run);

  // Scores that are lost with a worker are made again.
  static constexpr Duration kFlush = std::chrono::seconds(2);

  net::Loop& loop_;
  step::Trainer& trainer_;
  const Callbacks callbacks_;
  RunScoring scoring_;  // the run that is being scored
  std::map<uint64_t, Again> rescores_;
  std::function<void()> when_room_;  // empty: nothing waits
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
  ScoreSender sender_;
};

}  // namespace leat::roles

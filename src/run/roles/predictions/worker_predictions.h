// The predictions of a worker: the scores of its runs go to the feeds that publish them, before the runs are
// pushed, and splits whose scores are lost are scored again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "job/job.h"
#include "net/loop.h"
#include "protocol/messages_control.h"
#include "protocol/predictions/publisher.h"
#include "run/feed/client.h"
#include "run/roles/input/split_loader.h"
#include "run/roles/membership.h"
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
  void Start(const protocol::Cut& cut, uint32_t run, bool rescored) {
    scores_ = {.cut = cut, .run = run, .rescored = rescored, .events = {}, .scores = {}, .keys = {}};
  }
  // `predictions`: of the rows of the split's batch, in order, with the same number for each.
  void Add(const PreparedSplit& split, uint32_t batch, std::span<const float> predictions);
  protocol::RunScores Take() { return std::exchange(scores_, {}); }

 private:
  protocol::RunScores scores_;
};

// Sends the scores of a worker's runs to the feeds that publish them, on a thread of its own, in the order in
// which they were made, and again until a feed has taken them. Thread-safe, except for its end.
class ScoreSender {
 public:
  struct Options {
    // A client of the feed with this address.
    std::function<feed::ClientOptions(const std::string& address)> feed_at;
    uint64_t max_waiting = 1 << 18;  // events, after which there is no room
    std::function<void()> on_room;   // called on the thread when there is room again
  };
  explicit ScoreSender(Options options);
  // Drops unsent scores.
  ~ScoreSender();

  // The addresses of the feeds, by partition; empty: none publishes it at present.
  void SetPublishers(std::vector<std::string> addresses);
  void Send(protocol::RunScores scores);
  bool has_room() const {
    std::lock_guard lock(mutex_);
    return waiting_ < options_.max_waiting;
  }
  // Waits until feeds have taken all scores, at most for `limit`.
  void Flush(Duration limit) {
    std::unique_lock lock(mutex_);
    taken_.wait_for(lock, limit, [this] { return queue_.empty() && sending_.empty(); });
  }
  // The first split of each partition with scores that no feed has taken yet.
  std::vector<protocol::UnsentScores> Unsent() const;

 private:
  void Run();
  // Takes scores for one feed off the queue, in order.
  std::vector<protocol::RunScores> TakeBatch(std::string* address);

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, taken_;
  std::deque<protocol::RunScores> queue_;
  std::vector<protocol::RunScores> sending_;
  uint64_t waiting_ = 0;  // events in both
  std::vector<std::string> publishers_;
  std::shared_ptr<feed::Client> client_;  // client for client_address_
  std::string client_address_;
  bool stop_ = false;
  std::thread thread_;
};

// Loop's thread only, but OnBatch, which may be called where the trainer computes.
class WorkerPredictions {
 public:
  // `may_score`: the trainer is free, and has the values of the servers. `loader` reads splits that are
  // scored again, which is answered by OnSplit or OnUnreadable.
  WorkerPredictions(net::Loop& loop, const Membership& membership, const job::Job& job,
                    step::Trainer& trainer, SplitLoader& loader, const RoleOptions& options,
                    std::function<bool()> may_score);
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
  void OnRoom() {
    if (const auto f = std::exchange(when_room_, nullptr)) f();
  }
  void ScoreBatch(const PreparedSplit& split, uint32_t batch);
  void ScoreAgain(uint64_t lease, uint32_t run);

  // Scores that are lost with a worker are made again.
  static constexpr Duration kFlush = std::chrono::seconds(2);

  net::Loop& loop_;
  step::Trainer& trainer_;
  const Membership& membership_;
  SplitLoader& loader_;
  const std::function<bool()> may_score_;
  RunScoring scoring_;  // the run that is being scored
  std::map<uint64_t, Again> rescores_;
  std::function<void()> when_room_;  // empty: nothing waits
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
  ScoreSender sender_;
};

}  // namespace leat::roles

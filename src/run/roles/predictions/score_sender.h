// Sends the scores of a worker's runs to the feeds that publish them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/messages_control.h"
#include "protocol/predictions/publisher.h"
#include "run/feed/client.h"

namespace leat::roles {

// Scores are sent by a thread of its own, in the order in which they were made, and again until a feed has
// taken them. Thread-safe, except for its end.
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
  bool has_room() const;
  // Waits until feeds have taken all scores, at most for `limit`.
  void Flush(Duration limit);
  // The first split of each partition with scores that no feed has taken yet.
  std::vector<protocol::UnsentScores> Unsent() const;

 private:
  void Run();
  // Takes scores for one feed off the queue, in order.
  std::vector<protocol::RunScores> TakeBatch(std::string* address);
  // Ok if the feed has taken all.
  Status SendBatch(const std::string& address, const std::vector<protocol::RunScores>& batch);

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

}  // namespace leat::roles

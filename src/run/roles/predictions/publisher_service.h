// Publishes the predictions of the publishing groups that the coordinator has assigned to this process, each
// by one transactional producer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "job/job.h"
#include "protocol/messages_control.h"
#include "protocol/predictions/publisher.h"
#include "stream/topic_writer.h"

namespace leat::roles {

// The record of a prediction: {"partition":2,"offset":71,"score":0.25}, or "scores":[…] if there are several,
// and "rescored":true if it is. A score that is not finite is null.
void AppendPrediction(uint32_t partition, const protocol::PartitionPublisher::Prediction& prediction,
                      std::string* out);

// A thread of its own writes. Thread-safe, except for its end.
class PublisherService {
 public:
  using Open = std::function<Result<std::unique_ptr<stream::TopicTransactions>>(uint32_t group)>;
  explicit PublisherService(Open open);
  // Waits for the write in progress.
  ~PublisherService();

  // All that this process is to publish. A group that has the same assignment as before has the same
  // partitions, or more.
  void SetOrders(const std::vector<protocol::PublisherOrder>& orders);
  // kNotFound: not all of it is published here, and the others have been taken.
  Status Take(std::vector<protocol::RunScores> scores);
  std::vector<protocol::PublisherReport> Reports() const;

 private:
  struct Partition {
    protocol::PublisherOrder order;
    std::optional<protocol::PartitionPublisher> publisher;  // none: how far it is published is not known
    bool certain = false;                                   // its note is that of the publisher
    Status refused;                                         // why it is not published at all
  };
  struct Group {
    uint64_t assignment = 0;
    std::unique_ptr<stream::TopicTransactions> transactions;  // the thread's
    std::map<uint32_t, Partition> partitions;                 // some are added, and none is removed
    uint32_t last = 0;                                        // the last partition that was written
    Status status;
    Time retry_at{0};
    Duration backoff{0};
  };

  void Run();
  // False if there was nothing to do. All with the lock held, which they give up for calls to the brokers.
  bool Advance(std::unique_lock<std::mutex>& lock, uint32_t number, const std::shared_ptr<Group>& group);
  // Learns how far the partitions that are not certain are published.
  bool ReadNotes(std::unique_lock<std::mutex>& lock, uint32_t number, Group& group);
  bool WriteNext(std::unique_lock<std::mutex>& lock, uint32_t number, Group& group);
  // Closes the transactions after an error. Their committed records are known when they are opened again.
  void Failed(std::unique_lock<std::mutex>& lock, uint32_t number, Group& group, const Status& why);

  const Open open_;
  const MonotonicClock clock_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<uint32_t, std::shared_ptr<Group>> groups_;  // by number
  std::vector<std::shared_ptr<Group>> retired_;        // groups that are not published here any more
  bool stop_ = false;
  std::thread thread_;
};

// For the predictions of the job; null if it publishes none.
std::unique_ptr<PublisherService> MakePublisher(const job::Job& job);

// For feed::Contents::on_scores. The service outlives the feed.
inline std::function<Status(std::vector<protocol::RunScores>)> TakeScores(PublisherService& service) {
  return [&service](std::vector<protocol::RunScores> scores) { return service.Take(std::move(scores)); };
}

}  // namespace leat::roles

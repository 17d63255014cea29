// Publishes the predictions of the partitions that the coordinator has assigned to this process.
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
#include "stream/kafka/kafka_transactions.h"

namespace leat::roles {

// The record of a prediction: {"partition":2,"offset":71,"score":0.25}, or "scores":[…] if there are several,
// and "rescored":true if it is. A score that is not finite is null.
void AppendPrediction(uint32_t partition, const protocol::PartitionPublisher::Prediction& prediction,
                      std::string* out);

// A thread of its own writes. Thread-safe, except for its end.
class PublisherService {
 public:
  using Open = std::function<Result<std::unique_ptr<stream::KafkaTransactions>>(uint32_t partition)>;
  explicit PublisherService(Open open);
  // Waits for the write in progress.
  ~PublisherService();

  // All that this process is to publish.
  void SetOrders(const std::vector<protocol::PublisherOrder>& orders);
  // kNotFound: not all of it is published here, and the others have been taken.
  Status Take(std::vector<protocol::RunScores> scores);
  std::vector<protocol::PublisherReport> Reports() const;

 private:
  struct Partition {
    protocol::PublisherOrder order;
    std::unique_ptr<stream::KafkaTransactions> transactions;  // the thread's
    std::optional<protocol::PartitionPublisher> publisher;    // none: how far it is published is not known
    Status status;
    Time retry_at{0};
    Duration backoff{0};
  };

  void Run();
  // False if there was nothing to do. All with the lock held, which they give up for calls to the brokers.
  bool Advance(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Partition>& partition);
  void OpenPartition(std::unique_lock<std::mutex>& lock, Partition& partition);
  bool WriteNext(std::unique_lock<std::mutex>& lock, Partition& partition);
  void Close(std::unique_lock<std::mutex>& lock, Partition& partition);
  void Failed(Partition& partition, const Status& why);

  const Open open_;
  const MonotonicClock clock_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<uint32_t, std::shared_ptr<Partition>> partitions_;
  std::vector<std::shared_ptr<Partition>> retired_;  // that are not published here any more
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

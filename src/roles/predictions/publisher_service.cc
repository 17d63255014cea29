#include "roles/predictions/publisher_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace leat::roles {
namespace {

constexpr Duration kFirstBackoff = std::chrono::milliseconds(100);
constexpr Duration kMaxBackoff = std::chrono::seconds(5);
// Events of one transaction.
constexpr size_t kMaxEvents = 1 << 16;

template <class T>
void AppendNumber(T value, std::string* out) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  out->append(text, end.ptr);
}

void AppendScore(float score, std::string* out) {
  if (std::isfinite(score)) {
    AppendNumber(score, out);
  } else {
    *out += "null";
  }
}

std::string NameOf(uint32_t partition) {
  return "predictions of partition " + std::to_string(partition);
}

}  // namespace

void AppendPrediction(uint32_t partition, const protocol::PartitionPublisher::Prediction& prediction,
                      std::string* out) {
  *out += "{\"partition\":";
  AppendNumber(partition, out);
  *out += ",\"offset\":";
  AppendNumber(prediction.offset, out);
  if (prediction.width == 1) {
    *out += ",\"score\":";
    AppendScore(prediction.scores[0], out);
  } else {
    *out += ",\"scores\":[";
    for (uint32_t i = 0; i < prediction.width; ++i) {
      if (i > 0) *out += ',';
      AppendScore(prediction.scores[i], out);
    }
    *out += ']';
  }
  if (prediction.rescored) *out += ",\"rescored\":true";
  *out += '}';
}

PublisherService::PublisherService(Open open) : open_(std::move(open)), thread_([this] { Run(); }) {}

PublisherService::~PublisherService() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void PublisherService::SetOrders(const std::vector<protocol::PublisherOrder>& orders) {
  {
    std::lock_guard lock(mutex_);
    std::map<uint32_t, std::shared_ptr<Partition>> next;
    for (const auto& order : orders) {
      const auto at = partitions_.find(order.partition);
      if (at != partitions_.end() && at->second->order.assignment == order.assignment) {
        next[order.partition] = at->second;
        if (!at->second->publisher) at->second->order = order;
      } else {
        next[order.partition] = std::make_shared<Partition>();
        next[order.partition]->order = order;
      }
    }
    for (auto& [number, partition] : partitions_) {
      if (!next.contains(number) || next[number] != partition) retired_.push_back(std::move(partition));
    }
    partitions_ = std::move(next);
  }
  wake_.notify_all();
}

Status PublisherService::Take(std::vector<protocol::RunScores> scores) {
  Status status;
  {
    std::lock_guard lock(mutex_);
    for (auto& run : scores) {
      const uint32_t partition = run.cut.partition;
      const auto at = partitions_.find(partition);
      if (at == partitions_.end() || !at->second->publisher) {
        status = Status(Code::kNotFound, "the " + NameOf(partition) + " are not published here");
        continue;
      }
      // Those that are published already, or wait already, have been scored twice: the first scores stand.
      (void)at->second->publisher->Take(std::move(run));
    }
  }
  wake_.notify_all();
  return status;
}

std::vector<protocol::PublisherReport> PublisherService::Reports() const {
  std::lock_guard lock(mutex_);
  std::vector<protocol::PublisherReport> reports;
  for (const auto& [number, partition] : partitions_) {
    auto& report = reports.emplace_back();
    report.partition = number;
    report.assignment = partition->order.assignment;
    report.status = partition->status;
    if (!partition->publisher) continue;
    report.published = partition->publisher->published();
    report.held = partition->publisher->Held(protocol::PublisherReport::kMaxHeld);
    report.rescored = partition->publisher->rescored();
  }
  return reports;
}

void PublisherService::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!retired_.empty()) {  // their ends take a while
      auto retired = std::exchange(retired_, {});
      lock.unlock();
      retired.clear();
      lock.lock();
    }
    // Orders may change while the lock is given up.
    std::vector<std::shared_ptr<Partition>> all;
    for (const auto& [number, partition] : partitions_) all.push_back(partition);
    bool busy = false;
    Time next = Time::max();
    for (const auto& partition : all) {
      if (stop_) return;
      busy = Advance(lock, partition) || busy;
      if (partition->retry_at > clock_.Now()) next = std::min(next, partition->retry_at);
    }
    all.clear();
    if (busy || stop_) continue;
    if (next == Time::max()) {
      wake_.wait(lock);
    } else {
      wake_.wait_for(lock, std::max(next - clock_.Now(), Duration(0)));
    }
  }
}

bool PublisherService::Advance(std::unique_lock<std::mutex>& lock,
                               const std::shared_ptr<Partition>& partition) {
  const auto at = partitions_.find(partition->order.partition);
  if (at == partitions_.end() || at->second != partition || clock_.Now() < partition->retry_at) return false;
  if (partition->status.code() == Code::kFailedPrecondition) return false;
  if (partition->transactions == nullptr) {
    OpenPartition(lock, *partition);
    return true;
  }
  return WriteNext(lock, *partition);
}

void PublisherService::OpenPartition(std::unique_lock<std::mutex>& lock, Partition& partition) {
  protocol::PublisherOrder order = partition.order;
  order.fresh = order.fresh && !partition.publisher;  // it has published since
  lock.unlock();
  auto opened = open_(order.partition);
  Status begun;
  // Before anything of the partition is cut: a note that is missing later has been lost.
  if (opened.ok() && !(*opened)->committed() && order.fresh) begun = (*opened)->Write({}, order.start);
  lock.lock();
  if (!opened.ok()) return Failed(partition, opened.status());
  if (!begun.ok()) {
    partition.transactions = std::move(*opened);
    Close(lock, partition);
    return Failed(partition, begun);
  }
  const auto committed = (*opened)->committed();
  const std::string what = "the " + NameOf(order.partition);
  if (order.fresh && committed && *committed != order.start) {
    partition.status = Status(
        Code::kFailedPrecondition,
        what + " are published up to offset " + std::to_string(*committed) +
            " already, and this job begins at " + std::to_string(order.start) +
            ": a former job of this name has published them; give this one another name, or another topic");
    return;
  }
  if (!order.fresh && !committed) {
    partition.status = Status(Code::kFailedPrecondition,
                              "the brokers do not know any more how far " + what + " are published");
    return;
  }
  if (partition.publisher) {
    partition.publisher->Restart(committed.value_or(order.start));
  } else {
    partition.publisher.emplace(order.partition, committed.value_or(order.start));
  }
  partition.transactions = std::move(*opened);
  if (!partition.status.ok()) spdlog::info("{} go on", what);
  partition.status = Status();
  partition.backoff = Duration(0);
}

bool PublisherService::WriteNext(std::unique_lock<std::mutex>& lock, Partition& partition) {
  const auto next = partition.publisher->Next(kMaxEvents);
  if (!next) return false;
  const uint32_t number = partition.order.partition;
  lock.unlock();
  std::string text;
  std::vector<size_t> ends;
  for (const auto& prediction : next->predictions) {
    AppendPrediction(number, prediction, &text);
    ends.push_back(text.size());
  }
  std::vector<stream::KafkaTransactions::Record> records;
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const auto& key = *next->predictions[i].key;
    records.push_back({.key = key ? std::optional<std::string_view>(*key) : std::nullopt,
                       .value = std::string_view(text).substr(begin, ends[i] - begin)});
    begin = ends[i];
  }
  const Status written = partition.transactions->Write(records, next->end);
  lock.lock();
  if (written.ok()) {
    partition.publisher->OnPublished(true);
    return true;
  }
  // Whether it is committed is known when the transactions are opened again.
  Close(lock, partition);
  Failed(partition, written);
  return true;
}

void PublisherService::Close(std::unique_lock<std::mutex>& lock, Partition& partition) {
  auto closed = std::move(partition.transactions);
  lock.unlock();
  closed.reset();
  lock.lock();
}

void PublisherService::Failed(Partition& partition, const Status& why) {
  if (why.message() != partition.status.message())
    spdlog::warn("{}: {}; trying again", NameOf(partition.order.partition), why.ToString());
  partition.status = why.code() == Code::kDataLoss || why.code() == Code::kFailedPrecondition
                         ? Status(Code::kUnavailable, why.message())
                         : why;
  // Whoever has taken it over may be in the right.
  partition.backoff = why.code() == Code::kStale
                          ? kMaxBackoff
                          : std::clamp(2 * partition.backoff, kFirstBackoff, kMaxBackoff);
  partition.retry_at = clock_.Now() + partition.backoff;
}

std::unique_ptr<PublisherService> MakePublisher(const job::Job& job) {
  const job::KafkaStream* const kafka = job.stream.kafka();
  if (!job.predictions.enabled() || kafka == nullptr) return nullptr;
  return std::make_unique<PublisherService>(
      [stream = *kafka, topic = job.predictions.topic, name = job.name](uint32_t partition) {
        return stream.OpenPredictions(topic, name, partition);
      });
}

}  // namespace leat::roles

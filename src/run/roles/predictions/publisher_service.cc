#include "run/roles/predictions/publisher_service.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/json/text.h"
#include "base/log.h"
#include "base/threads/thread.h"

namespace leat::roles {
namespace {

constexpr Duration kFirstBackoff = std::chrono::milliseconds(100);
constexpr Duration kMaxBackoff = std::chrono::seconds(5);
// Events of one transaction.
constexpr size_t kMaxEvents = 1 << 16;

std::string NameOf(uint32_t partition) {
  return "the predictions of partition " + std::to_string(partition);
}

// The records of some publications, whose predictions outlive them.
class Records {
 public:
  void Add(uint32_t partition, const protocol::PartitionPublisher::Publication& publication) {
    for (const auto& prediction : publication.predictions) {
      AppendPrediction(partition, prediction, &text_);
      ends_.push_back(text_.size());
      keys_.push_back(prediction.key);
    }
  }
  // They refer to this object.
  std::vector<stream::TopicTransactions::Record> Get() const {
    std::vector<stream::TopicTransactions::Record> records;
    size_t begin = 0;
    for (size_t i = 0; i < ends_.size(); ++i) {
      records.push_back({.key = *keys_[i] ? std::optional<std::string_view>(**keys_[i]) : std::nullopt,
                         .value = std::string_view(text_).substr(begin, ends_[i] - begin)});
      begin = ends_[i];
    }
    return records;
  }

 private:
  std::string text_;
  std::vector<size_t> ends_;
  std::vector<const std::optional<std::string>*> keys_;
};

}  // namespace

void AppendPrediction(uint32_t partition, const protocol::PartitionPublisher::Prediction& prediction,
                      std::string* out) {
  const bool single = prediction.width == 1;
  AppendJson(out, R"({"partition":)", partition, R"(,"offset":)", prediction.offset,
             single ? R"(,"score":)" : R"(,"scores":[)", std::span(prediction.scores, prediction.width),
             single ? "" : "]", prediction.rescored ? R"(,"rescored":true})" : "}");
}

PublisherService::PublisherService(Open open)
    : open_(std::move(open)), thread_(StartThread([this] { Run(); })) {}

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
    std::map<uint32_t, std::shared_ptr<Group>> next;
    for (const auto& order : orders) {
      std::shared_ptr<Group>& group = next[order.group];
      if (group == nullptr) {
        const auto at = groups_.find(order.group);
        const bool same = at != groups_.end() && at->second->assignment == order.assignment;
        group = same ? at->second : std::make_shared<Group>();
        group->assignment = order.assignment;
      }
      Partition& partition = group->partitions[order.partition];
      if (!partition.publisher) partition.order = order;
    }
    for (auto& [number, group] : groups_) {
      const auto at = next.find(number);
      if (at == next.end() || at->second != group) retired_.push_back(std::move(group));
    }
    groups_ = std::move(next);
  }
  wake_.notify_all();
}

Status PublisherService::Take(std::vector<protocol::RunScores> scores) {
  Status status;
  {
    std::lock_guard lock(mutex_);
    for (auto& run : scores) {
      Partition* partition = nullptr;
      for (const auto& [number, group] : groups_) {
        const auto at = group->partitions.find(run.cut.partition);
        if (at != group->partitions.end() && partition == nullptr) partition = &at->second;
      }
      if (partition == nullptr || !partition->publisher) {
        status = Status(Code::kNotFound, NameOf(run.cut.partition) + " are not published here");
        continue;
      }
      // Runs that are published already, or wait already, have been scored twice: the first scores stand.
      (void)partition->publisher->Take(std::move(run));
    }
  }
  wake_.notify_all();
  return status;
}

std::vector<protocol::PublisherReport> PublisherService::Reports() const {
  std::lock_guard lock(mutex_);
  std::vector<protocol::PublisherReport> reports;
  for (const auto& [group_number, group] : groups_) {
    for (const auto& [number, partition] : group->partitions) {
      auto& report = reports.emplace_back();
      report.partition = number;
      report.assignment = group->assignment;
      report.status = partition.refused.ok() ? group->status : partition.refused;
      if (!partition.publisher) continue;
      report.published = partition.publisher->published();
      report.held = partition.publisher->Held(protocol::PublisherReport::kMaxHeld);
      report.rescored = partition.publisher->rescored();
    }
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
    auto all = groups_;  // orders may change while the lock is given up
    bool busy = false;
    Time next = Time::max();
    for (const auto& [number, group] : all) {
      if (stop_) return;
      busy = Advance(lock, number, group) || busy;
      if (group->retry_at > clock_.Now()) next = std::min(next, group->retry_at);
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

bool PublisherService::Advance(std::unique_lock<std::mutex>& lock, uint32_t number,
                               const std::shared_ptr<Group>& group) {
  const auto at = groups_.find(number);
  if (at == groups_.end() || at->second != group || clock_.Now() < group->retry_at) return false;
  if (group->transactions == nullptr) {
    for (auto& [partition, state] : group->partitions) state.certain = false;
    lock.unlock();
    auto opened = open_(number);
    lock.lock();
    if (!opened.ok()) {
      Failed(lock, number, *group, opened.status());
      return true;
    }
    group->transactions = std::move(*opened);
  }
  return ReadNotes(lock, number, *group) || WriteNext(lock, number, *group);
}

bool PublisherService::ReadNotes(std::unique_lock<std::mutex>& lock, uint32_t number, Group& group) {
  std::vector<uint32_t> partitions;
  stream::TopicTransactions::Notes starts;
  for (const auto& [partition, state] : group.partitions) {
    if (state.certain || !state.refused.ok()) continue;
    partitions.push_back(partition);
    // Otherwise it has published since.
    if (state.order.fresh && !state.publisher) starts[partition] = state.order.start;
  }
  if (partitions.empty()) return false;
  lock.unlock();
  auto notes = group.transactions->Committed(partitions);
  // Before anything of the partition is cut: a note that is missing later has been lost.
  Status begun;
  if (notes.ok()) {
    auto lacking = starts;
    std::erase_if(lacking, [&notes](const auto& entry) { return notes->contains(entry.first); });
    if (!lacking.empty()) begun = group.transactions->Write({}, lacking);
    notes->merge(lacking);
  }
  lock.lock();
  const Status learned = notes.ok() ? begun : notes.status();
  if (!learned.ok()) {
    Failed(lock, number, group, learned);
    return true;
  }
  for (const uint32_t partition : partitions) {
    Partition& state = group.partitions.at(partition);
    const auto note = notes->find(partition);
    if (note == notes->end()) {
      state.refused = Status(Code::kFailedPrecondition, "the brokers do not know any more how far " +
                                                            NameOf(partition) + " are published");
    } else if (starts.contains(partition) && note->second != starts.at(partition)) {
      state.refused = Status(
          Code::kFailedPrecondition,
          NameOf(partition) + " are published up to offset " + std::to_string(note->second) +
              " already, and this job begins at " + std::to_string(starts.at(partition)) +
              ": a former job of this name has published them; give this one another name, or another topic");
    } else if (state.publisher) {
      state.publisher->Restart(note->second);
    } else {
      state.publisher.emplace(partition, note->second);
    }
    state.certain = state.refused.ok();
  }
  if (!group.status.ok()) spdlog::info("publishing group {} goes on", number);
  group.status = Status();
  group.backoff = Duration(0);
  return true;
}

bool PublisherService::WriteNext(std::unique_lock<std::mutex>& lock, uint32_t number, Group& group) {
  std::map<uint32_t, protocol::PartitionPublisher::Publication> next;
  size_t events = 0;
  // Each partition in turn comes first.
  auto at = group.partitions.upper_bound(group.last);
  for (size_t i = 0; i < group.partitions.size() && events < kMaxEvents; ++i, ++at) {
    if (at == group.partitions.end()) at = group.partitions.begin();
    auto& [partition, state] = *at;
    if (!state.certain) continue;
    auto publication = state.publisher->Next(kMaxEvents - events);
    if (!publication) continue;
    group.last = partition;
    events += publication->predictions.size();
    next.emplace(partition, std::move(*publication));
  }
  if (next.empty()) return false;
  lock.unlock();
  Records records;
  stream::TopicTransactions::Notes notes;
  for (const auto& [partition, publication] : next) {
    records.Add(partition, publication);
    notes[partition] = publication.end;
  }
  const Status written = group.transactions->Write(records.Get(), notes);
  lock.lock();
  if (!written.ok()) {
    Failed(lock, number, group, written);
    return true;
  }
  for (const auto& [partition, publication] : next)
    group.partitions.at(partition).publisher->OnPublished(true);
  return true;
}

void PublisherService::Failed(std::unique_lock<std::mutex>& lock, uint32_t number, Group& group,
                              const Status& why) {
  if (why.message() != group.status.message())
    spdlog::warn("publishing group {}: {}; trying again", number, why.ToString());
  group.status = why.code() == Code::kDataLoss || why.code() == Code::kFailedPrecondition
                     ? Status(Code::kUnavailable, why.message())
                     : why;
  // The process that has taken it over may be in the right.
  group.backoff =
      why.code() == Code::kStale ? kMaxBackoff : std::clamp(2 * group.backoff, kFirstBackoff, kMaxBackoff);
  auto closed = std::move(group.transactions);
  lock.unlock();
  closed.reset();
  lock.lock();
  group.retry_at = clock_.Now() + group.backoff;
}

std::unique_ptr<PublisherService> MakePublisher(const job::Job& job) {
  if (!job.predictions.enabled()) return nullptr;
  return std::make_unique<PublisherService>(
      [stream = job.stream, topic = job.predictions.topic, name = job.name](uint32_t group) {
        return stream->OpenPredictions(topic, name, group);
      });
}

}  // namespace leat::roles

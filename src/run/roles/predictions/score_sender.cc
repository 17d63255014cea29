#include "run/roles/predictions/score_sender.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "base/threads/thread.h"

namespace leat::roles {
namespace {

// The publisher may have changed after this time: the feed that does not answer may be lost.
constexpr Duration kCallDeadline = std::chrono::seconds(3);
constexpr Duration kScoreRetry = std::chrono::milliseconds(100);
constexpr size_t kBatchBytes = 4 << 20;

// About as many bytes as it takes on the wire.
size_t BytesOf(const protocol::RunScores& scores) {
  size_t bytes = 128 + scores.events.size() * (sizeof(uint32_t) + sizeof(float) * scores.width + 5);
  for (const auto& key : scores.keys) bytes += key ? key->size() : 0;
  return bytes;
}

}  // namespace

ScoreSender::ScoreSender(Options options)
    : options_(std::move(options)), thread_(StartThread([this] { Run(); })) {}

ScoreSender::~ScoreSender() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    if (client_ != nullptr) client_->Abort();
  }
  wake_.notify_all();
  thread_.join();
}

void ScoreSender::SetPublishers(std::vector<std::string> addresses) {
  {
    std::lock_guard lock(mutex_);
    if (publishers_ == addresses) return;
    publishers_ = std::move(addresses);
    // Nothing comes of a call to a feed that publishes nothing any more.
    if (client_ != nullptr && std::ranges::count(publishers_, client_address_) == 0) client_->Abort();
  }
  wake_.notify_all();
}

void ScoreSender::Send(protocol::RunScores scores) {
  {
    std::lock_guard lock(mutex_);
    waiting_ += scores.events.size();
    queue_.push_back(std::move(scores));
  }
  wake_.notify_all();
}

bool ScoreSender::has_room() const {
  std::lock_guard lock(mutex_);
  return waiting_ < options_.max_waiting;
}

void ScoreSender::Flush(Duration limit) {
  std::unique_lock lock(mutex_);
  taken_.wait_for(lock, limit, [this] { return queue_.empty() && sending_.empty(); });
}

std::vector<protocol::UnsentScores> ScoreSender::Unsent() const {
  std::map<uint32_t, uint64_t> first;
  const auto add = [&first](const protocol::RunScores& scores) {
    const uint64_t begin = scores.cut.begin.offset;
    const auto [at, fresh] = first.try_emplace(scores.cut.partition, begin);
    if (!fresh) at->second = std::min(at->second, begin);
  };
  std::lock_guard lock(mutex_);
  std::ranges::for_each(sending_, add);
  std::ranges::for_each(queue_, add);
  std::vector<protocol::UnsentScores> unsent;
  for (const auto& [partition, begin] : first) unsent.push_back({partition, begin});
  return unsent;
}

std::vector<protocol::RunScores> ScoreSender::TakeBatch(std::string* address) {
  const auto publisher = [this](const protocol::RunScores& scores) -> const std::string& {
    static const std::string kNone;
    return scores.cut.partition < publishers_.size() ? publishers_[scores.cut.partition] : kNone;
  };
  std::vector<protocol::RunScores> batch;
  const auto first =
      std::ranges::find_if(queue_, [&](const auto& scores) { return !publisher(scores).empty(); });
  if (first == queue_.end()) return batch;
  *address = publisher(*first);
  size_t bytes = 0;
  std::deque<protocol::RunScores> others;
  for (auto& scores : queue_) {
    if (bytes < kBatchBytes && publisher(scores) == *address) {
      bytes += BytesOf(scores);
      batch.push_back(std::move(scores));
    } else {
      others.push_back(std::move(scores));
    }
  }
  queue_ = std::move(others);
  return batch;
}

void ScoreSender::Run() {
  std::string last_warning;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    std::string address;
    sending_ = TakeBatch(&address);
    if (sending_.empty()) {
      wake_.wait(lock);
      continue;
    }
    if (client_ == nullptr || client_address_ != address) {
      client_ = std::make_shared<feed::Client>(options_.feed_at(address));
      client_address_ = address;
    }
    lock.unlock();
    const Status status = SendBatch(address, sending_);
    lock.lock();
    if (status.ok()) {
      last_warning.clear();
      const bool was_full = waiting_ >= options_.max_waiting;
      for (const auto& scores : sending_) waiting_ -= scores.events.size();
      sending_.clear();
      taken_.notify_all();
      if (was_full && waiting_ < options_.max_waiting && options_.on_room) options_.on_room();
      continue;
    }
    if (status.message() != last_warning && !stop_)
      spdlog::warn("scores for predictions: {}; trying again", status.message());
    last_warning = status.message();
    queue_.insert(queue_.begin(), std::make_move_iterator(sending_.begin()),
                  std::make_move_iterator(sending_.end()));
    sending_.clear();
    client_.reset();
    wake_.wait_for(lock, kScoreRetry, [this] { return stop_; });
  }
}

Status ScoreSender::SendBatch(const std::string& address, const std::vector<protocol::RunScores>& batch) {
  feed::Reply reply;
  Bytes payload;
  const Bytes sent = fields::Encode(feed::Scores{batch});
  return client_->Call({.kind = feed::RequestKind::kScores}, &reply, &payload, kCallDeadline, sent)
      .With("feed " + address);
}

}  // namespace leat::roles

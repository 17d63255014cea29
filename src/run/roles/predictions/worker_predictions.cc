#include "run/roles/predictions/worker_predictions.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/threads/thread.h"
#include "run/roles/feed/job_feeds.h"

namespace leat::roles {
namespace {

ScoreSender::Options SenderOptions(const job::Job& job, const RoleOptions& options,
                                   std::function<void()> on_room) {
  auto feeds = FeedsOf(options.coordinator_client, TransportOf(options, feed::FeedPort()), job.InputsHash());
  return {.feed_at =
              [feeds](const std::string& address) {
                feed::ClientOptions one = feeds;
                one.find_feeds = [address]() -> Result<std::vector<std::string>> {
                  return std::vector{address};
                };
                return one;
              },
          .on_room = std::move(on_room)};
}

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

void RunScoring::Add(const PreparedSplit& split, uint32_t batch, std::span<const float> predictions) {
  const auto rows = split.Batch(batch);
  if (rows.empty()) return;
  LEAT_CHECK(predictions.size() % rows.size() == 0);
  scores_.width = static_cast<uint32_t>(predictions.size() / rows.size());
  scores_.scores.insert(scores_.scores.end(), predictions.begin(), predictions.end());
  for (const uint32_t row : rows) {
    const uint32_t event = split.rows.index[row];
    scores_.events.push_back(event);
    const auto key = event < split.keys.size() ? split.keys[event] : std::nullopt;
    scores_.keys.push_back(key ? std::optional<std::string>(AsText(*key)) : std::nullopt);
  }
}

WorkerPredictions::WorkerPredictions(net::Loop& loop, const Membership& membership, const job::Job& job,
                                     step::Trainer& trainer, SplitLoader& loader, const RoleOptions& options,
                                     std::function<bool()> may_score)
    : loop_(loop),
      trainer_(trainer),
      membership_(membership),
      loader_(loader),
      may_score_(std::move(may_score)),
      sender_(SenderOptions(job, options, [this] {
        loop_.Post([this, here = here_] {
          if (*here) OnRoom();
        });
      })) {
  trainer_.ScoreByInference();
}

void WorkerPredictions::Fill(protocol::WorkerHeartbeat* heartbeat) const {
  heartbeat->unsent = sender_.Unsent();
  for (const auto& [lease, again] : rescores_) heartbeat->rescoring.push_back(lease);
  heartbeat->can_rescore = rescores_.empty() && may_score_();
}

void WorkerPredictions::OnHeartbeatReply(const protocol::WorkerHeartbeatReply& reply,
                                         const protocol::View& view) {
  if (reply.view) {
    std::vector<std::string> addresses = view.publishers;
    for (std::string& address : addresses) address = AddressOf(address, membership_.coordinator());
    sender_.SetPublishers(std::move(addresses));
  }
  for (const auto& lease : reply.rescores) {
    if (!lease.cut.valid() || lease.missing.size() != lease.cut.runs()) continue;
    rescores_[lease.id].lease = lease;
    loader_.Prepare(lease);
  }
}

void WorkerPredictions::OnSplit(std::unique_ptr<PreparedSplit> split) {
  const uint64_t lease = split->lease.id;
  rescores_.at(lease).split = std::move(split);
  ScoreAgain(lease, 0);
}

void WorkerPredictions::OnBatch(const PreparedSplit& split, uint32_t batch, bool first, bool last,
                                bool rejected) {
  const auto& cut = split.lease.cut;
  const uint32_t run = batch / cut.run;
  if (first) scoring_.Start(cut, run, false);
  scoring_.Add(split, batch, trainer_.predictions());
  if (!last && !rejected) return;
  // The other batches of a run that was rejected are not trained, but they are recorded.
  const uint32_t end = run * cut.run + cut.BatchesOf(run);
  for (uint32_t other = batch + 1; other < end; ++other) ScoreBatch(split, other);
  sender_.Send(scoring_.Take());
}

void WorkerPredictions::WhenRoom(std::function<void()> f) {
  if (sender_.has_room()) return f();
  when_room_ = std::move(f);
}

void WorkerPredictions::ScoreBatch(const PreparedSplit& split, uint32_t batch) {
  trainer_.Predict(RowsOf(split), split.Batch(batch), split.lease.cut.batch_size);
  scoring_.Add(split, batch, trainer_.predictions());
}

// A run at a time, so that the loop has its turn.
void WorkerPredictions::ScoreAgain(uint64_t id, uint32_t run) {
  const auto again = rescores_.find(id);
  if (again == rescores_.end()) return;
  const auto& [cut, missing] = std::tie(again->second.lease.cut, again->second.lease.missing);
  while (run < cut.runs() && !missing.Has(run)) ++run;
  const bool busy = !sender_.has_room() || !may_score_();
  if (run < cut.runs() && !busy) {
    scoring_.Start(cut, run, true);
    for (uint32_t batch = run * cut.run; batch < run * cut.run + cut.BatchesOf(run); ++batch)
      ScoreBatch(*again->second.split, batch);
    sender_.Send(scoring_.Take());
    ++run;
  }
  if (run < cut.runs()) {
    constexpr Duration kBusyPause = std::chrono::milliseconds(2);
    loop_.After(busy ? kBusyPause : Duration(0), [this, id, run, here = here_] {
      if (*here) ScoreAgain(id, run);
    });
    return;
  }
  loader_.Recycle(std::move(again->second.split));
  rescores_.erase(again);
}

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
    feed::Reply reply;
    Bytes payload;
    const Bytes sent = fields::Encode(feed::Scores{sending_});
    const Status status =
        client_->Call({.kind = feed::RequestKind::kScores}, &reply, &payload, kCallDeadline, sent)
            .With("feed " + address);
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

}  // namespace leat::roles

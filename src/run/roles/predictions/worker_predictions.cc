#include "run/roles/predictions/worker_predictions.h"

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "net/address.h"
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

}  // namespace

void RunScoring::Start(const protocol::Cut& cut, uint32_t run, bool rescored) {
  scores_ = {.cut = cut, .run = run, .rescored = rescored, .events = {}, .scores = {}, .keys = {}};
}

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

protocol::RunScores RunScoring::Take() {
  return std::exchange(scores_, {});
}

WorkerPredictions::WorkerPredictions(net::Loop& loop, const job::Job& job, step::Trainer& trainer,
                                     const RoleOptions& options, Callbacks callbacks)
    : loop_(loop),
      trainer_(trainer),
      callbacks_(std::move(callbacks)),
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
  heartbeat->can_rescore = rescores_.empty() && callbacks_.may_score();
}

void WorkerPredictions::OnHeartbeatReply(const protocol::WorkerHeartbeatReply& reply,
                                         const protocol::View& view) {
  if (reply.view) {
    std::vector<std::string> addresses = view.publishers;
    for (std::string& address : addresses) {
      if (address.starts_with(':')) address = std::string(net::HostOf(callbacks_.coordinator())) + address;
    }
    sender_.SetPublishers(std::move(addresses));
  }
  for (const auto& lease : reply.rescores) {
    if (!lease.cut.valid() || lease.missing.size() != lease.cut.runs()) continue;
    rescores_[lease.id].lease = lease;
    callbacks_.prepare(lease);
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

void WorkerPredictions::OnRoom() {
  if (const auto f = std::exchange(when_room_, nullptr)) f();
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
  const bool busy = !sender_.has_room() || !callbacks_.may_score();
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
  callbacks_.recycle(std::move(again->second.split));
  rescores_.erase(again);
}

}  // namespace leat::roles

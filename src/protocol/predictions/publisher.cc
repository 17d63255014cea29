#include "protocol/predictions/publisher.h"

#include <algorithm>
#include <utility>

namespace leat::protocol {

bool RunScores::valid() const {
  if (!cut.valid() || run >= cut.runs() || width == 0 || events.size() > cut.EventsOf(run) ||
      scores.size() != events.size() * width || keys.size() != events.size())
    return false;
  std::vector<uint32_t> sorted = events;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end() &&
         (sorted.empty() || sorted.back() < cut.events());
}

Status Check(const RunScores& scores) {
  return scores.valid() ? Status() : Status(Code::kDataLoss, "not the scores of a run of its cut");
}

Status PartitionPublisher::Take(RunScores scores) {
  const Cut& cut = scores.cut;
  if (cut.partition != partition_ || cut.begin.offset < published_)
    return {Code::kStale, "published already"};
  Split& split = splits_[cut.begin.offset];
  if (split.cut != cut) {
    // The coordinator has cut this range again; what it made before will not become whole.
    if (cut.begin.offset < writing_) return {Code::kStale, "published already"};
    for (const auto& [run, former] : split.scores) waiting_ -= former.events.size();
    split = {.cut = cut, .runs = RunSet(cut.runs()), .scores = {}};
  }
  if (split.runs.Has(scores.run)) return {Code::kStale, "scored already"};
  split.runs.Add(scores.run);
  waiting_ += scores.events.size();
  split.scores.emplace(scores.run, std::move(scores));
  return {};
}

std::optional<PartitionPublisher::Publication> PartitionPublisher::Next(size_t most) {
  if (writing_ != 0) return std::nullopt;
  Publication next{.begin = published_, .end = published_, .predictions = {}};
  for (auto at = splits_.find(published_); at != splits_.end() && at->second.runs.full();
       at = splits_.find(next.end)) {
    const Split& split = at->second;
    const size_t before = next.predictions.size();
    if (before > 0 && before + split.cut.events() > most) break;
    for (const auto& [run, scores] : split.scores) {
      for (size_t i = 0; i < scores.events.size(); ++i)
        next.predictions.push_back({.offset = split.cut.begin.offset + scores.events[i],
                                    .key = &scores.keys[i],
                                    .scores = &scores.scores[i * scores.width],
                                    .width = scores.width,
                                    .rescored = scores.rescored});
    }
    std::ranges::sort(next.predictions.begin() + static_cast<std::ptrdiff_t>(before), next.predictions.end(),
                      {}, &Prediction::offset);
    next.end = split.cut.end;
  }
  if (next.end == next.begin) return std::nullopt;
  writing_ = next.end;
  return next;
}

void PartitionPublisher::DropBefore(uint64_t published) {
  for (auto at = splits_.begin(); at != splits_.end() && at->first < published; at = splits_.erase(at)) {
    for (const auto& [run, scores] : at->second.scores) {
      waiting_ -= scores.events.size();
      if (scores.rescored) rescored_ += scores.events.size();
    }
  }
  published_ = published;
}

std::vector<OpenSplit> PartitionPublisher::Held(size_t most) const {
  std::vector<OpenSplit> held;
  for (const auto& [begin, split] : splits_) {
    if (held.size() == most) break;
    held.push_back({split.cut, split.runs});
  }
  return held;
}

}  // namespace leat::protocol

#include "lab/sim/leases/labels.h"

#include <algorithm>

namespace leat::sim {

using namespace protocol;

namespace {

// Limits of a mark.
constexpr uint64_t kMostEvents = 60, kMostLabels = 50;
constexpr double kRepeated = 0.25;

std::string RangeText(const LabelRange& labels) {
  return "labels " + std::to_string(labels.begin) + " to " + std::to_string(labels.end);
}

}  // namespace

void LabelStream::Start(const std::vector<LabelMarksWanted>& wanted) {
  partitions_.clear();
  for (const LabelMarksWanted& one : wanted) partitions_.emplace_back().last = one.last.value_or(LabelMark());
}

void LabelStream::Mark(Time now, const LabelMarksWanted& wanted, StreamRange* range) {
  Partition& partition = partitions_[range->partition];
  while (std::max(partition.last.events, range->begin) < range->end) {
    LabelMark next = partition.last;
    next.events = std::min(range->end, std::max(next.events, range->begin) + 1 + rng_.Below(kMostEvents));
    next.labels_begin += rng_.Below(next.labels_end - next.labels_begin + 1);
    next.labels_end += rng_.Below(kMostLabels);
    partition.ready = std::max(partition.ready, now + FromSeconds(Seconds(latest_) * rng_.Uniform()));
    partition.coming.emplace_back(partition.ready, next);
    partition.last = next;
  }
  std::vector<LabelMark> fresh;
  auto& coming = partition.coming;
  for (; !coming.empty() && coming.front().first <= now && fresh.size() < wanted.room; coming.pop_front())
    fresh.push_back(coming.front().second);
  if (rng_.Chance(kRepeated)) range->marks = partition.reported;
  range->marks.insert(range->marks.end(), fresh.begin(), fresh.end());
  if (!fresh.empty()) partition.reported = std::move(fresh);
}

void LabelCheck::OnJournaled(const LabelsMarked& marked) {
  auto& marks = marks_[marked.partition];
  marks.insert(marks.end(), marked.marks.begin(), marked.marks.end());
}

std::string LabelCheck::OnLeased(const Cut& cut, const std::optional<LabelRange>& labels) {
  const std::string name = "the cut of partition " + std::to_string(cut.partition) + " from " +
                           std::to_string(cut.begin.offset) + " to " + std::to_string(cut.end);
  if (!labels) return name + " is leased without labels";
  const auto& [first, first_labels] =
      leased_.try_emplace({cut.partition, cut.begin.offset}, cut, *labels).first->second;
  if (first != cut) return name + " is leased, after one that ended at " + std::to_string(first.end);
  if (first_labels != *labels)
    return name + " is leased with " + RangeText(*labels) + ", before with " + RangeText(first_labels);

  std::optional<LabelRange> journaled;
  uint64_t at = 0;
  for (const LabelMark& mark : marks_[cut.partition]) {
    if (at < cut.end && mark.events > cut.begin.offset) {
      if (!journaled) journaled = LabelRange{mark.labels_begin, mark.labels_end};
      journaled->end = mark.labels_end;
    }
    at = mark.events;
  }
  if (at < cut.end) return name + " is leased, marks are journaled up to " + std::to_string(at);
  if (journaled != labels)
    return name + " is leased with " + RangeText(*labels) + ", journaled are " + RangeText(*journaled);
  return "";
}

}  // namespace leat::sim

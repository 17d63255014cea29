#include "protocol/leases/label_marks.h"

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "base/check.h"

namespace leat::protocol {

namespace {

std::string MarkText(const LabelMark& mark) {
  return "events up to " + std::to_string(mark.events) + ", labels " + std::to_string(mark.labels_begin) +
         " to " + std::to_string(mark.labels_end);
}

Status Contradiction(uint32_t partition, const LabelMark& mark, const std::optional<LabelMark>& known) {
  return {Code::kDataLoss, "label mark of partition " + std::to_string(partition) + ": " + MarkText(mark) +
                               (known ? ", which contradicts the mark of " + MarkText(*known) : "")};
}

}  // namespace

Result<std::vector<LabelMark>> LabelMarks::Add(uint32_t partition, uint64_t cut,
                                               const std::vector<LabelMark>& marks) {
  std::deque<LabelMark>& known = partitions_[partition];
  std::vector<LabelMark> fresh;
  std::optional<LabelMark> last = Last(partition);
  for (const LabelMark& mark : marks) {
    if (last ? mark.Follows(*last) : mark.events > 0 && mark.labels_begin <= mark.labels_end) {
      fresh.push_back(mark);
      last = mark;
      continue;
    }
    // The mark is sent again. Marks before the first known one are forgotten.
    const auto at = std::ranges::lower_bound(known, mark.events, {}, &LabelMark::events);
    if (at != known.end() && (*at == mark || (at == known.begin() && mark.events < at->events))) continue;
    return Contradiction(partition, mark, at == known.end() ? last : *at);
  }
  if (const size_t room = Room(partition, cut); fresh.size() > room) {
    return Status(Code::kResourceExhausted, std::to_string(fresh.size()) + " label marks of partition " +
                                                std::to_string(partition) + ", room is for " +
                                                std::to_string(room));
  }
  known.insert(known.end(), fresh.begin(), fresh.end());
  return fresh;
}

Status LabelMarks::Restore(const LabelsMarked& marked) {
  if (marked.partition >= partitions_.size())
    return {Code::kDataLoss, "label mark of partition " + std::to_string(marked.partition) +
                                 ", which the stream does not have"};
  std::deque<LabelMark>& known = partitions_[marked.partition];
  for (const LabelMark& mark : marked.marks) {
    const auto last = Last(marked.partition);
    if (last && !mark.Follows(*last)) return Contradiction(marked.partition, mark, last);
    known.push_back(mark);
  }
  return {};
}

size_t LabelMarks::Room(uint32_t partition, uint64_t cut) const {
  const std::deque<LabelMark>& known = partitions_[partition];
  const auto ahead = known.end() - std::ranges::upper_bound(known, cut, {}, &LabelMark::events);
  return kMaxAhead - std::min(kMaxAhead, static_cast<size_t>(ahead));
}

uint64_t LabelMarks::Limit(uint32_t partition) const {
  return partitions_[partition].empty() ? 0 : partitions_[partition].back().events;
}

std::optional<LabelMark> LabelMarks::Last(uint32_t partition) const {
  if (partitions_[partition].empty()) return std::nullopt;
  return partitions_[partition].back();
}

std::optional<LabelRange> LabelMarks::RangeOf(const Cut& cut) const {
  if (!enabled()) return std::nullopt;
  const std::deque<LabelMark>& known = partitions_[cut.partition];
  const auto of = [&known](uint64_t offset) {
    return std::ranges::upper_bound(known, offset, {}, &LabelMark::events);
  };
  const auto first = of(cut.begin.offset), last = of(cut.end - 1);
  LEAT_CHECK(last != known.end());
  return LabelRange{first->labels_begin, last->labels_end};
}

void LabelMarks::Forget(const std::vector<Position>& watermark) {
  for (size_t p = 0; p < partitions_.size() && p < watermark.size(); ++p) {
    std::deque<LabelMark>& known = partitions_[p];
    while (known.size() > 1 && known.front().events <= watermark[p].offset) known.pop_front();
  }
}

void DropMarksBefore(const std::vector<Position>& watermark, std::vector<JournalRecord>* records) {
  std::map<uint32_t, uint64_t> last;  // by partition
  for (const JournalRecord& record : *records) {
    const auto* marked = std::get_if<LabelsMarked>(&record);
    if (marked != nullptr && !marked->marks.empty()) last[marked->partition] = marked->marks.back().events;
  }
  for (JournalRecord& record : *records) {
    auto* marked = std::get_if<LabelsMarked>(&record);
    if (marked == nullptr || marked->partition >= watermark.size()) continue;
    const uint64_t needed = std::min(watermark[marked->partition].offset + 1, last[marked->partition]);
    std::erase_if(marked->marks, [needed](const LabelMark& mark) { return mark.events < needed; });
  }
  std::erase_if(*records, [](const JournalRecord& record) {
    const auto* marked = std::get_if<LabelsMarked>(&record);
    return marked != nullptr && marked->marks.empty();
  });
}

}  // namespace leat::protocol

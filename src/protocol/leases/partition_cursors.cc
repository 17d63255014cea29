#include "protocol/leases/partition_cursors.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
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

std::string PositionText(Position at) {
  return "epoch " + std::to_string(at.epoch) + " offset " + std::to_string(at.offset);
}

std::invalid_argument LacksMarks(size_t partition, Position cut, uint64_t labelled) {
  return std::invalid_argument("the journal has cuts of partition " + std::to_string(partition) + " up to " +
                               PositionText(cut) + ", and label marks up to offset " +
                               std::to_string(labelled));
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

bool RateRaised::Before(const std::vector<Position>& watermark) const {
  for (size_t p = 0; p < last.size(); ++p) {
    if (p >= watermark.size() || watermark[p] < last[p]) return false;
  }
  return true;
}

bool RaisedRates::Add(RateRaised span) {
  if (!spans_.empty() && spans_.back().first == span.first) return false;
  spans_.push_back(std::move(span));
  return true;
}

float RaisedRates::At(uint32_t partition, Position begin) const {
  float factor = 1;
  for (const RateRaised& span : spans_) {
    if (partition >= span.first.size() || partition >= span.last.size()) continue;
    if (span.first[partition] <= begin && begin < span.last[partition])
      factor = std::max(factor, span.factor);
  }
  return factor;
}

void RaisedRates::DropBefore(const std::vector<Position>& watermark) {
  std::erase_if(spans_, [&](const RateRaised& span) { return span.Before(watermark); });
}

PartitionCursors::PartitionCursors(const CutRules& rules, size_t partitions, Duration tail_wait,
                                   bool late_labels)
    : rules_(rules), tail_wait_(tail_wait), partitions_(partitions), labels_(late_labels ? partitions : 0) {
  if (!late_labels) return;
  for (Partition& partition : partitions_) partition.labelled = 0;
}

void PartitionCursors::Start(const std::vector<Position>& start) {
  LEAT_CHECK(start.size() == partitions_.size());
  for (size_t p = 0; p < partitions_.size(); ++p) {
    partitions_[p].first = start[p].offset;
    partitions_[p].passes = PassesFrom(start[p].offset, rules_.epochs);
    partitions_[p].at = start[p];
  }
  started_ = true;
}

void PartitionCursors::RestorePasses(const PassesPlanned& planned) {
  const bool fits = planned.partitions.size() == partitions_.size() &&
                    std::ranges::none_of(planned.partitions, &Passes::empty);
  if (!fits) throw std::invalid_argument("the journal has passes over another number of partitions");
  for (size_t p = 0; p < partitions_.size(); ++p) partitions_[p].passes = planned.partitions[p];
}

std::optional<PassesPlanned> PartitionCursors::PlanPasses() {
  if (!replan_ || !started_ || !Known()) return std::nullopt;
  replan_ = false;
  PassesPlanned planned;
  bool needed = false;
  for (Partition& partition : partitions_) {
    Passes passes = Continued(partition.passes, rules_.epochs, partition.at, partition.end, partition.sealed);
    // A single pass goes on, wherever its border was.
    const bool single = rules_.epochs == 1 && partition.at.epoch == 0;
    needed = needed || (passes != partition.passes && !single);
    partition.passes = std::move(passes);
    planned.partitions.push_back(partition.passes);
  }
  return needed ? std::optional(std::move(planned)) : std::nullopt;
}

std::vector<Cut> PartitionCursors::Restore(const std::vector<Position>& watermark, std::vector<Cut> cuts) {
  LEAT_CHECK(started_ && watermark.size() == partitions_.size());
  for (size_t p = 0; p < partitions_.size(); ++p) {
    Partition& partition = partitions_[p];
    partition.at = watermark[p];
    if (partition.at.offset > std::max(partition.labelled, partition.first))
      throw LacksMarks(p, partition.at, partition.labelled);
  }
  std::sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) {
    return std::pair(a.partition, a.begin) < std::pair(b.partition, b.begin);
  });
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Cut> kept;
  for (const Cut& cut : cuts) {
    if (cut.partition >= partitions_.size() || !cut.valid()) {
      throw std::invalid_argument("the journal has an invalid cut in partition " +
                                  std::to_string(cut.partition));
    }
    Partition& partition = partitions_[cut.partition];
    if (cut.end > partition.labelled) throw LacksMarks(cut.partition, cut.next(), partition.labelled);
    const bool first = kept.empty() || kept.back().partition != cut.partition;
    if (cut.next() <= partition.at && first) continue;  // before the watermark
    if (cut.after != partition.at) {
      throw std::invalid_argument("the journal's cuts of partition " + std::to_string(cut.partition) +
                                  " are not contiguous: one follows " + PositionText(cut.after) +
                                  ", the last ended at " + PositionText(partition.at));
    }
    partition.at = cut.next();
    kept.push_back(cut);
  }
  return kept;
}

void PartitionCursors::OnRange(Time now, const StreamRange& range) {
  if (range.partition >= partitions_.size()) return;
  Partition& partition = partitions_[range.partition];
  replan_ = replan_ || !partition.known || range.sealed != partition.sealed ||
            range.end > partition.passes.back().end;
  partition.known = true;
  partition.sealed = range.sealed;
  partition.end = range.end;
  if (!started_) partition.first = range.begin;
  if (!partition.tail_since && partition.cut_end() > partition.at.offset) partition.tail_since = now;
}

void PartitionCursors::Advance(Time now, const Cut& cut) {
  Partition& partition = partitions_[cut.partition];
  ahead_ -= partition.ahead();
  partition.at = cut.next();
  ahead_ += partition.ahead();
  advanced_ += cut.events();
  partition.tail_since.reset();
  if (partition.cut_end() > partition.at.offset) partition.tail_since = now;
}

void PartitionCursors::Release(size_t p, uint64_t offset) {
  Partition& partition = partitions_[p];
  ahead_ -= partition.ahead();
  partition.released = offset;
  ahead_ += partition.ahead();
}

bool PartitionCursors::Known() const {
  return std::all_of(partitions_.begin(), partitions_.end(), [](const Partition& p) { return p.known; });
}

std::optional<std::vector<Position>> PartitionCursors::FirstOffsets() const {
  if (!Known()) return std::nullopt;
  return start();
}

std::vector<Position> PartitionCursors::start() const {
  std::vector<Position> start;
  for (const Partition& partition : partitions_) start.push_back({0, partition.first});
  return start;
}

bool PartitionCursors::Exhausted() const {
  return started_ && std::all_of(partitions_.begin(), partitions_.end(), [&](const Partition& p) {
           return p.known && protocol::Exhausted(p.passes, p.at, p.cut_end(), p.complete());
         });
}

std::vector<Position> PartitionCursors::Positions() const {
  std::vector<Position> uncut;
  for (const Partition& partition : partitions_) uncut.push_back(partition.at);
  return uncut;
}

bool PartitionCursors::EndsAt(const std::vector<Position>& watermark) const {
  return Exhausted() && std::equal(partitions_.begin(), partitions_.end(), watermark.begin(), watermark.end(),
                                   [](const Partition& p, Position at) { return p.at == at; });
}

uint64_t PartitionCursors::Lag(const std::vector<Position>& watermark) const {
  uint64_t lag = 0;
  for (size_t p = 0; p < partitions_.size() && started_; ++p) {
    const Position at = watermark[p];
    uint64_t epoch = 0;  // epoch of the span's first pass
    for (const PassSpan& span : partitions_[p].passes) {
      const uint64_t end = std::min(span.end, partitions_[p].end), begin = std::min(span.begin, end);
      uint64_t passes = span.epochs;  // passes that have not begun
      if (at.epoch >= epoch) {
        const uint64_t begun = at.epoch + uint64_t{1} - epoch;
        if (begun <= passes) lag += end - std::min(at.offset, end);
        passes -= std::min(begun, passes);
      }
      lag += passes * (end - begin);
      epoch += span.epochs;
    }
  }
  return lag;
}

bool PartitionCursors::Overdue(Time now, uint32_t partition) const {
  // Marks of few events may be full before a whole split has its labels.
  if (labels_.enabled() && labels_.Room(partition, partitions_[partition].at.offset) == 0) return true;
  const auto& since = partitions_[partition].tail_since;
  return since && now - *since >= tail_wait_;
}

PartitionCursors::Key PartitionCursors::KeyOf(const Cut& cut) const {
  const uint64_t first = partitions_[cut.partition].first;
  return {cut.begin.epoch, cut.begin.offset - std::min(first, cut.begin.offset), cut.partition};
}

Result<std::vector<LabelMark>> PartitionCursors::AddMarks(uint32_t partition,
                                                          const std::vector<LabelMark>& marks) {
  if (!labels_.enabled() || partition >= partitions_.size()) return std::vector<LabelMark>();
  auto fresh = labels_.Add(partition, partitions_[partition].at.offset, marks);
  partitions_[partition].labelled = labels_.Limit(partition);
  return fresh;
}

Status PartitionCursors::RestoreMarks(const LabelsMarked& marked) {
  if (!labels_.enabled()) return {};
  LEAT_RETURN_IF_ERROR(labels_.Restore(marked));
  partitions_[marked.partition].labelled = labels_.Limit(marked.partition);
  return {};
}

std::vector<LabelMarksWanted> PartitionCursors::MarksWanted() const {
  std::vector<LabelMarksWanted> wanted;
  for (uint32_t p = 0; labels_.enabled() && p < partitions_.size(); ++p)
    wanted.push_back({labels_.Last(p), labels_.Room(p, partitions_[p].at.offset)});
  return wanted;
}

uint64_t PartitionCursors::Unlabelled() const {
  uint64_t waiting = 0;
  for (const Partition& partition : partitions_) waiting += partition.end - partition.cut_end();
  return waiting;
}

RateRaised PartitionCursors::NextSpan(const RateRaise& raise) const {
  RateRaised span;
  span.factor = raise.factor;
  const uint64_t share = (raise.events + partitions_.size() - 1) / partitions_.size();
  for (const Partition& partition : partitions_) {
    Position at = partition.at;
    uint64_t ahead = share;
    for (bool first = true;; first = false) {
      const auto rest = RestAfter(partition.passes, at, partition.end, partition.sealed);
      if (rest) at = rest->begin;
      if (first) span.first.push_back(at);
      const uint64_t there = rest ? rest->end - std::min(at.offset, rest->end) : 0;
      if (!rest || !rest->closed || ahead < there) break;
      ahead -= there;
      at.offset = rest->end;
    }
    span.last.push_back({at.epoch, at.offset + ahead});
  }
  return span;
}

}  // namespace leat::protocol

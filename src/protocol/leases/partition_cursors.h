// The contents of the stream and how far it is cut: for each partition its range and where the next cut
// begins; the spans with a higher learning rate; and late labels.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "protocol/leases/lease_settings.h"
#include "protocol/records/journal.h"

namespace leat::protocol {

// Late labels: the marks of each partition, up to which its events can be cut, and the labels of each cut.
//
// The label range of a cut depends on the cut and on the journaled marks, and on nothing else. A cut that is
// leased again is therefore joined with the same labels as before. For this reason marks are never merged.
//
// Kept are the marks that cuts since the oldest checkpoint need, and at most kMaxAhead of each partition that
// no cut has reached.
class LabelMarks {
 public:
  static constexpr size_t kMaxAhead = 256;

  // `partitions`: 0: the job has no late labels.
  explicit LabelMarks(size_t partitions) : partitions_(partitions) {}
  bool enabled() const { return !partitions_.empty(); }

  // Takes the marks of a report about a partition that is cut up to `cut`, and returns those that are new, to
  // be journaled. A report may be sent again, whole or in part, so marks that are known, or older than those
  // kept, are ignored. kDataLoss: they contradict the known ones. kResourceExhausted: there are more than
  // Room() has place for. Then none is taken.
  Result<std::vector<LabelMark>> Add(uint32_t partition, uint64_t cut, const std::vector<LabelMark>& marks);
  // Takes the marks of a journaled record, which follow those of the records before it; else kDataLoss.
  Status Restore(const LabelsMarked& marked);
  // How many marks can be added.
  size_t Room(uint32_t partition, uint64_t cut) const;

  // All events before this offset have their labels; 0: none has.
  uint64_t Limit(uint32_t partition) const;
  std::optional<LabelMark> Last(uint32_t partition) const;
  // None without late labels. The cut must not reach past the limit, or begin before what is forgotten.
  std::optional<LabelRange> RangeOf(const Cut& cut) const;
  // Forgets the marks before a watermark that no cut which can still be leased begins before. The last mark
  // of each partition stays.
  void Forget(const std::vector<Position>& watermark);
  size_t size(uint32_t partition) const { return partitions_[partition].size(); }

 private:
  std::vector<std::deque<LabelMark>> partitions_;  // in order
};

// Spans of the stream that are trained with a higher learning rate.
//
// The factor of a batch depends on the journaled spans and on where its cut begins, and on nothing else. A
// batch that is trained again after a failure therefore gets the same rate as before.
class RaisedRates {
 public:
  // False if it begins where the last one begins, so that it adds nothing.
  bool Add(RateRaised span);
  // The largest factor of the spans that contain the position; 1 outside of all spans.
  float At(uint32_t partition, Position begin) const;
  float Of(const Cut& cut) const { return At(cut.partition, cut.begin); }
  // Forgets the spans before a watermark that no slice will fall behind.
  void DropBefore(const std::vector<Position>& watermark);
  size_t size() const { return spans_.size(); }

 private:
  std::vector<RateRaised> spans_;
};

class PartitionCursors {
 public:
  struct Partition {
    bool known = false;
    bool sealed = false;
    uint64_t first = 0;  // start of the stream
    uint64_t end = 0;
    Passes passes = PassesFrom(0, 1);
    Position at;                       // the next cut begins here
    std::optional<Time> tail_since;    // since when uncut events are available
    std::optional<uint64_t> released;  // as by Release
    uint64_t labelled = UINT64_MAX;    // late labels: no cut reaches past this offset
    // The end of the events that can be cut now, and whether the partition ends there for good.
    uint64_t cut_end() const { return std::min(end, std::max(labelled, first)); }
    bool complete() const { return sealed && cut_end() == end; }
    // Events that are cut and not released.
    uint64_t ahead() const { return released ? at.offset - std::min(*released, at.offset) : 0; }
  };
  // Distance from the start, so that partitions advance together; then the partition.
  using Key = std::tuple<uint32_t, uint64_t, uint32_t>;

  PartitionCursors(const CutRules& rules, size_t partitions, Duration tail_wait, bool late_labels = false);

  bool started() const { return started_; }  // the start of every partition is known
  void Start(const std::vector<Position>& start);
  // Without the marks of the range: AddMarks comes first.
  void OnRange(Time now, const StreamRange& range);
  // Restores a journaled record. Throws std::invalid_argument if it contradicts the stream.
  void RestorePasses(const PassesPlanned& planned);
  // The passes that follow from the ranges, if they are to be journaled anew before anything else is cut.
  std::optional<PassesPlanned> PlanPasses();
  // Restores journaled cuts. Keeps those not before `watermark`, checks that they are contiguous in each
  // partition, and moves the cursors behind them. Throws std::invalid_argument if they contradict each other.
  std::vector<Cut> Restore(const std::vector<Position>& watermark, std::vector<Cut> cuts);
  // Reports that a cut was made at the partition's cursor.
  void Advance(Time now, const Cut& cut);
  // Pauses once Advance has passed this many events; nothing: no limit.
  void PauseAt(std::optional<uint64_t> events) { pause_at_ = events; }
  bool Paused() const { return pause_at_ && advanced_ >= *pause_at_; }
  // From now on no cut begins while so many events of all partitions together are ahead of what is released,
  // nor in a partition of which nothing has been released. It may end behind the limit.
  void LimitAhead(uint64_t events) { max_ahead_ = events; }
  // Events of the partition before this offset do not count any more.
  void Release(size_t partition, uint64_t offset);
  // The partition's next cut has to wait, whatever there is to cut.
  bool Held(size_t partition) const {
    return Paused() || (max_ahead_ && (!partitions_[partition].released || ahead_ >= *max_ahead_));
  }

  const CutRules& rules() const { return rules_; }
  size_t size() const { return partitions_.size(); }
  const Partition& operator[](size_t partition) const { return partitions_[partition]; }
  bool Known() const;  // the range of every partition is known
  // The current first offsets of the partitions; none until all are known.
  std::optional<std::vector<Position>> FirstOffsets() const;
  std::vector<Position> start() const;
  // True if every cut allowed by the rules has been made. No more follow unless the stream grows.
  bool Exhausted() const;
  // Where each partition's next cut begins.
  std::vector<Position> Positions() const;
  // Exhausted, and Positions() equals `watermark`.
  bool EndsAt(const std::vector<Position>& watermark) const;
  // Available events after the watermark, in all remaining passes.
  uint64_t Lag(const std::vector<Position>& watermark) const;
  // True if the rest of the partition is to be cut short: it has waited long enough, or no more marks of late
  // labels fit before it is cut.
  bool Overdue(Time now, uint32_t partition) const;
  Key KeyOf(const Cut& cut) const;

  // ---- late labels. As in LabelMarks.
  Result<std::vector<LabelMark>> AddMarks(uint32_t partition, const std::vector<LabelMark>& marks);
  Status RestoreMarks(const LabelsMarked& marked);
  void ForgetMarks(const std::vector<Position>& watermark) { labels_.Forget(watermark); }
  std::optional<LabelRange> LabelsOf(const Cut& cut) const { return labels_.RangeOf(cut); }
  // By partition; empty without late labels.
  std::vector<LabelMarksWanted> MarksWanted() const;
  // Events in the stream that wait for their labels.
  uint64_t Unlabelled() const;

  RaisedRates& rates() { return rates_; }
  const RaisedRates& rates() const { return rates_; }
  // The span of the events that are cut next, an equal share of each partition's. It may reach into later
  // passes.
  RateRaised NextSpan(const RateRaise& raise) const;

 private:
  CutRules rules_;
  Duration tail_wait_;
  bool started_ = false;
  std::optional<uint64_t> pause_at_;
  uint64_t advanced_ = 0;  // events passed by Advance
  std::optional<uint64_t> max_ahead_;
  uint64_t ahead_ = 0;   // the sum over all partitions
  bool replan_ = false;  // a range has changed so that there may be other passes
  std::vector<Partition> partitions_;
  RaisedRates rates_;
  LabelMarks labels_;
};

}  // namespace leat::protocol

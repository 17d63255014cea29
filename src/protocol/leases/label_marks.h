// Late labels: the marks of each partition, up to which its events can be cut, and the labels of each cut.
//
// The label range of a cut depends on the cut and on the journaled marks, and on nothing else. A cut that is
// leased again is therefore joined with the same labels as before. For this reason marks are never merged.
//
// Kept are the marks that cuts since the oldest checkpoint need, and at most kMaxAhead of each partition that
// no cut has reached.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/status.h"
#include "protocol/records/journal.h"

namespace leat::protocol {

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

}  // namespace leat::protocol

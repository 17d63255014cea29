// Times of records: sources that know them, and a sequence in which they are found.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "stream/source.h"

namespace leat::stream {

// Sources whose records have a time, in milliseconds since 1970, as those of Kafka have.

// The time of a record that is absent, or has none, is empty.
using RecordTimes = std::vector<std::optional<int64_t>>;

class TimedSource : public Source {
 public:
  // The first offset of a partition whose record has this time or a later one: every record before it is
  // earlier. The partition's end if there is none.
  virtual Result<uint64_t> FirstSince(uint32_t partition, int64_t time_ms) = 0;
  // Replaces `times` by those of the records [begin, end). The errors are those of Read. Sources that can do
  // without the records' bytes override it.
  virtual Status ReadTimes(uint32_t partition, uint64_t begin, uint64_t end, RecordTimes* times);
};

// The value of a timestamp (Attribute::Kind::kTimestamp).
std::optional<int64_t> TimeOf(std::optional<ByteView> timestamp);
// The timestamps of a batch, which are the attribute with this index.
RecordTimes TimesOf(const RecordBatch& batch, size_t attribute);

// A growing sequence of times in which a time of a range is found in O(log n) steps, as long as times are
// nearly in order; times without any order take up to n. Not thread-safe.

class TimeSequence {
 public:
  // Positions of the times that are here. They stay the same.
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return base_ + levels_[0].size(); }
  uint64_t bytes() const { return levels_[0].size() * (sizeof(Range) + sizeof(Range) / (kBranches - 1)); }

  void Append(int64_t time);
  // Forgets the first one; there must be one.
  void DropFirst();
  // The first position from `from` on, in [begin(), end()], with a time in [low, high]; end(): none. Adds the
  // number of times and ranges that were looked at to `steps`.
  uint64_t Find(uint64_t from, int64_t low, int64_t high, uint64_t* steps) const;

 private:
  static constexpr unsigned kBits = 3;
  static constexpr unsigned kBranches = 1 << kBits;
  struct Range {
    int64_t min, max;
  };
  uint64_t begin_ = 0, base_ = 0;  // base_: the position of the first entry of each level
  // levels_[0] has the times; a range of another level covers kBranches of the one below.
  std::vector<std::vector<Range>> levels_ = std::vector<std::vector<Range>>(1);
};

}  // namespace leat::stream

// Labels of consecutive offsets, found by key and time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "stream/source.h"

namespace leat::stream {

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

// The range moves on: labels are appended at its end and dropped at its begin. Not thread-safe.
class LabelIndex {
 public:
  explicit LabelIndex(int64_t window_ms) : window_ms_(window_ms) {}

  // The range [begin, end) of offsets whose labels are here.
  uint64_t begin() const { return blocks_.empty() ? end_ : blocks_.front().begin; }
  uint64_t end() const { return end_; }
  // Memory, about.
  uint64_t bytes() const;

  // Empty, from this offset on.
  void Restart(uint64_t at);
  // Appends the records [end(), end() + labels.size()). `key` and `time` are the indexes of these attributes.
  // Records without a key, a time or a value are no labels: a value without bytes is a tombstone.
  void Append(const RecordBatch& labels, size_t key, size_t time);
  // Forgets labels before the offset, except some that came with one that stays. The offset is in the range,
  // or its end.
  void DropBefore(uint64_t offset);

  struct Label {
    uint64_t offset = 0;
    ByteView value;  // valid until the label is dropped
  };
  // The first label in [begin, end) with the key and a time from `event_ms` to `event_ms` + window. O(log n)
  // for n labels with one key, whose times are nearly in order.
  std::optional<Label> Find(ByteView key, int64_t event_ms, uint64_t begin, uint64_t end) const;
  // Labels and ranges of times that all calls of Find have looked at.
  uint64_t steps() const { return steps_; }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  struct Entry {
    uint64_t offset = 0;
    int64_t time = 0;
    uint64_t hash = 0;               // hash of the key
    uint64_t next = kNone;           // number of the next entry with this hash
    const std::byte* key = nullptr;  // the value follows it
    uint32_t key_size = 0, value_size = 0;
  };
  // Labels that were appended at once.
  struct Block {
    uint64_t begin = 0;
    size_t entries = 0;
    Bytes data;
  };
  // For a hash with many entries: their numbers, and their times in the same order.
  struct LongChain {
    std::deque<uint64_t> numbers;
    TimeSequence times;
  };
  // Entries with a hash: the numbers of the first and the last one, and how many they are.
  struct Chain {
    uint64_t first = kNone, last = kNone;
    uint64_t size = 0;
    std::unique_ptr<LongChain> more;  // null: it is short
  };
  const Entry& At(uint64_t number) const { return entries_[number - first_]; }
  void Add(uint64_t number, Chain* chain);
  void DropFirst();

  const int64_t window_ms_;
  uint64_t end_ = 0;
  std::deque<Block> blocks_;
  std::deque<Entry> entries_;  // in the order of offsets; they have numbers, from first_ on
  uint64_t first_ = 0;
  std::unordered_map<uint64_t, Chain> chains_;
  uint64_t data_bytes_ = 0;
  uint64_t long_entries_ = 0;  // entries of long chains
  mutable uint64_t steps_ = 0;
};

}  // namespace leat::stream

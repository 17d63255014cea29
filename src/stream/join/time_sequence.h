// A growing sequence of times in which a time of a range is found in O(log n) steps, as long as times are
// nearly in order; times without any order take up to n. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace leat::stream {

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

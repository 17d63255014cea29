// What the stream holds, and how far it has been cut: for each partition its range, and where the next cut
// begins.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "protocol/coordinator/coordinator.h"

namespace leat::protocol {

class PartitionCursors {
 public:
  struct Partition {
    bool known = false;
    bool sealed = false;
    uint64_t first = 0;  // every pass starts here
    uint64_t end = 0;
    Position at;                     // the next cut follows this
    std::optional<Time> tail_since;  // something uncut has been there
  };
  // How far from the start, so that partitions advance together; then which.
  using Key = std::tuple<uint32_t, uint64_t, uint32_t>;

  PartitionCursors(const CutRules& rules, size_t partitions, Duration tail_wait)
      : rules_(rules), tail_wait_(tail_wait), partitions_(partitions) {}

  bool started() const { return started_; }  // it is known where every partition starts
  void Start(const std::vector<Position>& start);
  void OnRange(Time now, const StreamRange& range);
  // Cuts of a former life, from `watermark` on: those that do not lie before it, in each partition each
  // following the one before, which moves the heads behind them. Throws std::invalid_argument when they
  // contradict each other.
  std::vector<Cut> Restore(const std::vector<Position>& watermark, std::vector<Cut> cuts);
  // A cut was made at its partition's head.
  void Advance(Time now, const Cut& cut);
  // Once this many events have been cut by Advance, no new cut is to be made; 0: no limit.
  void PauseAt(uint64_t events) { pause_at_ = events; }
  bool Paused() const { return pause_at_ > 0 && advanced_ >= pause_at_; }

  const CutRules& rules() const { return rules_; }
  size_t size() const { return partitions_.size(); }
  const Partition& operator[](size_t partition) const { return partitions_[partition]; }
  bool Known() const;  // what every partition holds
  // Offsets that partitions start from now; nothing until all are known.
  std::optional<std::vector<Position>> FirstOffsets() const;
  std::vector<Position> start() const;
  // Every cut that the rules allow has been made. No more will come unless the stream grows.
  bool Exhausted() const;
  // Where each partition's next cut begins.
  std::vector<Position> Positions() const;
  // Exhausted, and Positions() is this.
  bool EndsAt(const std::vector<Position>& watermark) const;
  // Events there, in all passes that are to come, behind the watermark.
  uint64_t Lag(const std::vector<Position>& watermark) const;
  // What is left of the partition has waited long enough to be cut short.
  bool Overdue(Time now, size_t partition) const;
  Key KeyOf(const Cut& cut) const;

 private:
  CutRules rules_;
  Duration tail_wait_;
  bool started_ = false;
  uint64_t pause_at_ = 0;
  uint64_t advanced_ = 0;  // events that Advance has passed
  std::vector<Partition> partitions_;
};

}  // namespace leat::protocol

// How far a job is behind its stream, by partition: in events, and in seconds since the oldest of them came.
//
// An event's age counts from when the coordinator first saw the partition reach beyond it. Events that were
// there at the start count from the start. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace leat::report {

class Lag {
 public:
  struct Partition {
    uint32_t partition = 0;
    uint64_t end = 0;
    uint64_t events = 0;  // events of this pass that not every slice has
    double seconds = 0;   // since the first of them came
  };
  // By partition: where it ends, and how far all slices are in their current pass.
  void OnStatus(Time now, std::span<const uint64_t> ends, std::span<const uint64_t> done);
  // Partitions that are behind, the furthest first; at most `most`.
  std::vector<Partition> Behind(Time now, size_t most) const;
  // Since the first of all those events came; 0: there are none.
  Duration Oldest(Time now) const;

 private:
  // Moments at which a partition had grown; a few suffice for a precision of a few percent.
  static constexpr size_t kMoments = 64;
  struct State {
    uint64_t done = 0;
    std::deque<std::pair<Time, uint64_t>> ends;  // when it had grown, and to where
    bool behind() const { return !ends.empty() && ends.back().second > done; }
    // When the first event after `done` came. There must be one.
    Time first() const;
  };
  std::vector<State> partitions_;
};

}  // namespace leat::report

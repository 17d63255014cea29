// Late labels of a virtual stream: the marks that it makes, and a check of what the coordinator does with
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::sim {

// Makes marks at random, each up to `latest` later than its events. As in a stream in which time decides what
// is marked, a restart makes other marks after those that the coordinator has.
class LabelStream {
 public:
  LabelStream(uint64_t seed, Duration latest) : rng_(seed), latest_(latest) {}

  // A coordinator has started.
  void Start(const std::vector<protocol::LabelMarksWanted>& wanted);
  // Adds new marks to the range, and sometimes repeats those of the last report.
  void Mark(Time now, const protocol::LabelMarksWanted& wanted, protocol::StreamRange* range);

 private:
  struct Partition {
    protocol::LabelMark last;  // the newest that has been made
    Time ready{0};             // when it is reported
    std::deque<std::pair<Time, protocol::LabelMark>> coming;
    std::vector<protocol::LabelMark> reported;
  };

  Rng rng_;
  Duration latest_;
  std::vector<Partition> partitions_;
};

// Invariant::kLeasesLabels, with an oracle that looks at every mark ever journaled.
class LabelCheck {
 public:
  void OnJournaled(const protocol::LabelsMarked& marked);
  // A cut is leased with these labels. Returns what is wrong with that; empty: nothing.
  std::string OnLeased(const protocol::Cut& cut, const std::optional<protocol::LabelRange>& labels);

 private:
  std::map<uint32_t, std::vector<protocol::LabelMark>> marks_;  // by partition
  // By partition and begin: the cut and its labels when it was first leased.
  std::map<std::pair<uint32_t, uint64_t>, std::pair<protocol::Cut, protocol::LabelRange>> leased_;
};

}  // namespace leat::sim

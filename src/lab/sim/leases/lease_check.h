// Invariants of leases, and late labels of a virtual stream.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "lab/sim/members/role_process.h"
#include "protocol/records/journal.h"

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

// A coordinator that was replaced leases nothing (kSuccessionOneCoordinator), late labels of a cut are always
// the same (kLeasesLabels), the watermark never passes a run that a live slice lacks (kLeasesWatermark), and
// nothing is begun while the job is paused (kScalingPause).
class LeaseCheck : Concern {
 public:
  using Concern::Concern;

  // Each watermark of the newest coordinator.
  void CheckWatermark();
  // Each reply of a coordinator, of a term.
  void CheckReply(uint64_t term, const protocol::ControlReply& reply);
  // Each lease that a worker takes, and each round that a member takes. Servers refuse the work of a worker
  // that is evicted already.
  void CheckTaken(const RoleProcess& p, const protocol::Lease& lease);
  // A record is journaled, and will be acted on.
  void OnLabels(const protocol::LabelsMarked& marked) { labels_.OnJournaled(marked); }

  // ---- pauses
  void OnScale(const protocol::ScaleSet& set);
  // As OnScale, of coordinators with directories of their own.
  void OnAgreedScale(const protocol::ScaleSet& set);
  // Another coordinator takes over with this state.
  void OnTakenOver(const protocol::RecoveredState& restored);

 private:
  void CheckLabels(const protocol::WorkerHeartbeatReply& reply);
  void CheckPause(uint64_t term, const protocol::WorkerHeartbeatReply& reply);

  LabelCheck labels_;
  std::unordered_map<uint64_t, uint64_t> leased_by_;  // by lease: the coordinator's term
  std::map<std::pair<uint32_t, protocol::Position>, uint64_t>
      taken_from_;                       // by cut: the highest term of a lease
  uint64_t leased_until_ = 0;            // stepped: some of each step before this one has been leased
  std::optional<uint64_t> paused_from_;  // `leased_until_`, when the job was paused
};

}  // namespace leat::sim

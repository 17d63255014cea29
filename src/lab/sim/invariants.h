// The invariants of every job, by name. A violation ends the job and becomes its result.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fields/fields.h"

namespace leat::sim {

enum class Invariant : uint8_t {
  // ---- checked during the run if ClusterOptions::check is set
  kAppliedOnce,   // async, downpour: no run is applied twice to a slice
  kOneWriter,     // an incarnation of a slice is updated on one server at a time, from where another left it
  kTold,          // replicas: a run that a worker was told to be on a slice stays there through any failover
  kWatermark,     // the watermark never passes a run that a live slice lacks
  kCheckpoint,    // a complete checkpoint has each slice once, with every run before its watermark
  kMembersAgree,  // members of a group have the same state at the same step, and differ by at most one step
  kOneGroup,      // no member accepts a piece sent in another group
  kOneCoordinator,  // a coordinator that was replaced leases nothing, and no member follows it again
  kLabels,          // late labels: a cut is always leased with the same labels, by journaled marks
  kPause,           // while the job is paused, nothing is begun, whoever coordinates
  kFollowed,        // a follower completes values that the servers had when it asked, or later
  kProgress,        // there is progress within ClusterOptions::progress_within
  // ---- always checked
  kDeadline,  // the job ends within ClusterOptions::time_limit
  kAccepted,  // no role refuses a message of another
  kRestored,  // journal and manifest agree whenever a coordinator starts
  kJobEnds,   // the job ends without a failure, and with the whole stream
  // ---- counts, checked at the end of the job (counting.h)
  kValues,   // workers compute on the values that their strategy promises, with one version in all slices
  kCover,    // cuts cover the stream without gap or overlap
  kCount,    // every slice counts every event exactly once
  kLedgers,  // no slice has an open split
};
LEAT_ENUM(Invariant, (kAppliedOnce, "no batch is applied twice on a slice"),
          (kOneWriter, "a slice is updated on one server at a time, from where another has left it"),
          (kTold, "what a worker was told to be on a slice is still there after a failover"),
          (kWatermark, "the watermark never passes a batch that a live slice lacks"),
          (kCheckpoint, "a checkpoint has each slice once, with every batch before its watermark"),
          (kMembersAgree, "members of a group hold the same state at the same step"),
          (kOneGroup, "no member takes a piece that was sent in another group than its own"),
          (kOneCoordinator, "a coordinator that was replaced leases nothing, and no member follows it again"),
          (kLabels, "a cut is always leased with the same labels, which are journaled"),
          (kPause, "nothing is begun while the job is paused"),
          (kFollowed, "a follower completes what the servers had when it asked, or later"),
          (kProgress, "the job makes progress"), (kDeadline, "the job ends in time"),
          (kAccepted, "no role refuses what another sends"), (kRestored, "journal and manifest agree"),
          (kJobEnds, "the job ends without a failure, with all of the stream"),
          (kValues, "workers compute on the values that their strategy promises"),
          (kCover, "cuts cover the stream without gap or overlap"),
          (kCount, "every slice counts every event exactly once"),
          (kLedgers, "no slice has an open split left"));

struct Violation {
  Invariant invariant = Invariant::kDeadline;
  std::string what;
  Time at{0};  // in virtual time
  // kCount, kAppliedOnce: the most events that a slice lacks, or has too often.
  uint64_t lost = 0, twice = 0;
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& out, const Violation& v) { return out << v.ToString(); }
};

}  // namespace leat::sim

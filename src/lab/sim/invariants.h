// The invariants of every job, named after the concern that promises them. A violation ends the job and
// becomes its result.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fields/fields.h"
#include "protocol/ledger.h"
#include "protocol/messages_data.h"

namespace leat::sim {

// Most are checked during the run if ClusterOptions::check is set. kSuccessionRestored, and the invariants of
// the job, are always checked. Counts are checked at the end of the job (counting.h): kPushValues,
// kPushLedgers, kLeasesCover and kJobCount.
enum class Invariant : uint8_t {
  kSlicesOneWriter,  // an incarnation of a slice is updated on one server at a time, from where another left
                     // it
  kSlicesTold,  // replicas: a run that a worker was told to be on a slice stays there through any failover
  kPushAppliedOnce,  // async, downpour: no run is applied twice to a slice
  kPushValues,   // workers compute on the values that their strategy promises, with one version in all slices
  kPushLedgers,  // no slice has an open split when the job ends
  kLeasesWatermark,        // the watermark never passes a run that a live slice lacks
  kLeasesLabels,           // late labels: a cut is always leased with the same labels, by journaled marks
  kLeasesCover,            // cuts cover the stream without gap or overlap
  kAllReduceMembersAgree,  // members have the same state at the same step, and differ by at most one step
  kAllReduceOneGroup,      // no member accepts a piece sent in another group
  kCheckpointsWhole,       // a complete checkpoint has each slice once, with every run before its watermark
  kSubscribersCurrent,     // a subscriber completes values that the servers had when it asked, or later
  kScalingPause,           // while the job is paused, nothing is begun, whoever coordinates
  kSuccessionOneCoordinator,  // a coordinator that was replaced leases nothing, and no member follows it
                              // again
  kSuccessionRestored,        // journal and manifest agree whenever a coordinator starts
  kJobProgress,               // there is progress within ClusterOptions::progress_within
  kJobDeadline,               // the job ends within ClusterOptions::time_limit
  kJobAccepted,               // no role refuses a message of another
  kJobEnds,                   // the job ends without a failure, and with the whole stream
  kJobCount,                  // every slice counts every event exactly once
};
LEAT_ENUM(Invariant,
          (kSlicesOneWriter, "a slice is updated on one server at a time, from where another has left it"),
          (kSlicesTold, "what a worker was told to be on a slice is still there after a failover"),
          (kPushAppliedOnce, "no batch is applied twice on a slice"),
          (kPushValues, "workers compute on the values that their strategy promises"),
          (kPushLedgers, "no slice has an open split left"),
          (kLeasesWatermark, "the watermark never passes a batch that a live slice lacks"),
          (kLeasesLabels, "a cut is always leased with the same labels, which are journaled"),
          (kLeasesCover, "cuts cover the stream without gap or overlap"),
          (kAllReduceMembersAgree, "members of a group hold the same state at the same step"),
          (kAllReduceOneGroup, "no member takes a piece that was sent in another group than its own"),
          (kCheckpointsWhole, "a checkpoint has each slice once, with every batch before its watermark"),
          (kSubscribersCurrent, "a follower completes what the servers had when it asked, or later"),
          (kScalingPause, "nothing is begun while the job is paused"),
          (kSuccessionOneCoordinator,
           "a coordinator that was replaced leases nothing, and no member follows it again"),
          (kSuccessionRestored, "journal and manifest agree"), (kJobProgress, "the job makes progress"),
          (kJobDeadline, "the job ends in time"), (kJobAccepted, "no role refuses what another sends"),
          (kJobEnds, "the job ends without a failure, with all of the stream"),
          (kJobCount, "every slice counts every event exactly once"));

struct Violation {
  Invariant invariant = Invariant::kJobDeadline;
  std::string what;
  Time at{0};  // in virtual time
  // kJobCount, kPushAppliedOnce: the most events that a slice lacks, or has too often.
  uint64_t lost = 0, twice = 0;
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& out, const Violation& v) { return out << v.ToString(); }
};

// ---- texts of violations

std::string NameOf(SliceId slice);
std::string NameOf(const protocol::Position& at);
std::string NameOf(const protocol::SliceRef& ref);  // without its slice
// The partition whose ledger lacks a run before the watermark; empty if there is none.
std::string Lacks(const std::vector<protocol::PartitionLedger>& ledger,
                  const std::vector<protocol::Position>& watermark);

}  // namespace leat::sim

// The result of a virtual cluster's run, by the concern that counts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "lab/sim/faults/faults.h"
#include "lab/sim/invariants.h"

namespace leat::sim {

struct MemberCounts {
  uint64_t unreachable = 0;  // heartbeats that named a server
};

struct PushCounts {
  uint64_t duplicates = 0;  // slices of pushes that a ledger rejected
  uint64_t late = 0;        // slices of pushes that arrived after their step
};

struct LeaseCounts {
  uint64_t raises = 0;        // raises of the learning rate
  uint64_t marks = 0;         // marks of late labels, journaled
  uint64_t lane_changes = 0;  // lanes: auto, journaled
  uint64_t overdue_leases = 0;
  uint64_t regranted_leases = 0;  // splits leased again
};

struct SliceCounts {
  uint64_t moves = 0;         // completed moves of slices from one server to another
  uint64_t moved_bytes = 0;   // sent for moves, whether these were made or not
  uint64_t servers_left = 0;  // after they have handed all slices over
  uint64_t forwards = 0;      // pushes that replicas have taken
  uint64_t promotions = 0;    // replicas that have taken the place of a slice
  uint64_t replicated = 0;    // slices with a replica, when the job ended
};

struct CheckpointCounts {
  uint64_t checkpoints = 0;    // complete ones
  uint64_t loads = 0;          // slices read from a checkpoint
  uint64_t damaged = 0;        // checkpoints that were found to be damaged
  uint64_t rounds_remade = 0;  // rounds that others replace
};

struct GroupCounts {
  uint64_t groups = 0;            // allreduce: groups joined by at least one member
  uint64_t state_broadcasts = 0;  // states that a member received from another
  uint64_t one_shots = 0;         // steps for which a member added all contributions itself
};

struct SubscriberCounts {
  uint64_t follow_rounds = 0;   // rounds that followers have completed
  uint64_t follow_changes = 0;  // completed rounds with other values than before
  Duration follow_gap{0};       // longest time between two rounds in a row of a follower
};

struct SuccessionCounts {
  uint64_t restarts = 0;   // restarts of the coordinator alone
  uint64_t elections = 0;  // coordinators that the members have elected
  uint64_t sets = 0;       // sets of coordinators that a majority of the members has learned
  uint64_t replaced = 0;   // coordinators that found out that another one took over
  uint64_t resumes = 0;    // resumes of the whole job
};

struct FaultCounts {
  uint64_t deaths = 0;  // deaths of workers and servers
  std::array<uint64_t, kDeathPoints> deaths_at = {};
  uint64_t overtaken = 0;  // coordinators that were alive when another one took over
  uint64_t drained = 0;    // workers that the coordinator has told to leave
  uint64_t job_pauses = 0;
};

struct OutageCounts {
  uint64_t pauses = 0;  // processes that stopped
  uint64_t isolations = 0;
  uint64_t cuts = 0;  // cuts between a worker and a server
};

struct ClusterResult : MemberCounts,
                       PushCounts,
                       LeaseCounts,
                       SliceCounts,
                       CheckpointCounts,
                       GroupCounts,
                       SubscriberCounts,
                       SuccessionCounts,
                       FaultCounts,
                       OutageCounts {
  std::optional<Violation> violation;  // none: the job has ended normally
  std::string error;                   // the violation as text; empty: none
  Status failure;                      // why the coordinator gave up the job; OK: it did not
  bool ended = false;                  // the job ended, before its result was checked
  Time took{0};                        // in virtual time
  uint64_t messages = 0;
};

}  // namespace leat::sim

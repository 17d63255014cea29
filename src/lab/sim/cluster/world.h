// The world that all concerns of a virtual cluster share: the options of the run, virtual time, random
// numbers, and whether the run is over.
//
// The order of events and of random draws is the run: a concern that draws one number more, or schedules an
// event earlier, changes the results of every seed. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "lab/sim/cluster/cluster.h"
#include "lab/sim/events/event_queue.h"
#include "lab/sim/invariants.h"
#include "protocol/succession/election.h"

namespace leat::sim {

class ProcessTable;
struct ClusterConcerns;
struct Process;
struct RoleProcess;

enum EventKind : uint32_t {
  kArrive = 1,    // the first byte of a message is at the receiver's link
  kDeliver = 2,   // its last byte has been received
  kComputed = 3,  // a batch
  kWake = 4,      // a role's timer
  // Among members of a group: as kArrive and kDeliver, and when the last byte has left.
  kPieceArrives = 5,
  kPieceDelivered = 6,
  kPieceSent = 7,
  // A message, or a piece, is at the link of a zone.
  kCrosses = 8,
  kPieceCrosses = 9,
  kCores = 10,  // a task ends on a host with few cores
  // Part of a split, as kArrive and kDeliver.
  kChunkArrives = 11,
  kChunkDelivered = 12,
  kMoreToSend = 13,  // a window of a message has left
};

// Elements [begin, end) of the whole table.
struct ElementRange {
  uint64_t begin = 0, end = 0;
  uint64_t elements() const { return end - begin; }
  uint64_t bytes() const { return elements() * sizeof(float); }
};

struct World {
  World(ClusterOptions options, Workload& workload, Hooks hooks);

  Time now() const { return queue.now(); }
  bool Faulty() const { return now() < options.faults.until; }
  bool LateLabels() const { return options.stream.late_labels > Duration(0); }
  bool OwnDirectories() const { return options.coordinator_standbys > 0; }
  protocol::Role ElectorRole() const { return protocol::ElectorRole(options.strategy); }
  // Ends the run; only the first violation counts.
  void Violate(Invariant invariant, std::string what);
  // Tells the hook of a fault. `p`: none for the coordinator.
  void TellFault(const std::string& what, const RoleProcess* p = nullptr) const;

  ClusterOptions options;
  Workload& workload;
  Hooks hooks;
  Rng rng;
  EventQueue queue;
  std::vector<ElementRange> slice_ranges;  // by slice
  uint64_t elements = 0;
  bool modelled = false;
  bool done = false;
  ClusterResult result;  // counts of all concerns so far
};

// Base of the concerns: the world, and the way to the other concerns, of which each uses only the public
// functions.
class Concern {
 public:
  explicit Concern(ClusterConcerns& all);
  Concern(const Concern&) = delete;

 protected:
  Time now() const { return queue_.now(); }
  // Whether a fault of this probability happens.
  bool Chance(double p) { return p > 0 && world_.Faulty() && rng_.Chance(p); }
  Duration Between(double least_ms, double most_ms) {
    return FromSeconds((least_ms + (most_ms - least_ms) * rng_.Uniform()) * 1e-3);
  }
  // Random latency; `share` scales the probability that it takes up to seconds.
  Duration Latency(Duration least, double share = 1);
  Duration DiskTakes() { return FromSeconds(Seconds(options_.faults.slow_disk) * rng_.Uniform()); }
  // Runs `what` in the process when it is not paused; never if it is dead.
  void ScheduleIn(const std::shared_ptr<Process>& process, Duration delay, std::function<void()> what);
  void Violate(Invariant invariant, std::string what) { world_.Violate(invariant, std::move(what)); }

  ClusterConcerns& all_;
  World& world_;
  ClusterOptions& options_;
  ClusterResult& result_;
  EventQueue& queue_;
  Rng& rng_;
  ProcessTable& processes_;
};

}  // namespace leat::sim

// The faults of a virtual cluster: probabilities, plans, and the named points at which processes die.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/fields/fields.h"
#include "protocol/messages_control.h"

namespace leat::sim {

struct Faults {
  // Probabilities for each message of the data plane and each call of the control plane, per direction. Among
  // the members of a group they are a hundredth of that, because one lost message ends the group.
  double lost = 0;
  double duplicated = 0;  // a push arrives a second time, at any later time
  double slow = 0;        // takes up to seconds
  double split_unreadable = 0;
  double crash_between_actions = 0;  // per action of the coordinator
  double server_deaths = 0;          // share of all deaths
  double full_disk = 0;              // a write fails
  double unreadable = 0;             // a slice cannot be read from a checkpoint
  double damaged = 0;                // a checkpoint is damaged once it is complete
  double cut_pairs = 0;              // share of the faults that cut a worker from a server for some time
  double isolations = 0;             // share of faults that cut a process from all others or the coordinator
  double slow_links = 0;             // share of the processes that start with a link of 10 to 200 kB/s
  double deaths_in_pushes = 0;       // at each DeathPoint of a push
  double deaths_in_checkpoints = 0;  // at each DeathPoint of a checkpoint
  // Deaths of a process that takes part in a move of slices, or of the coordinator, at each point of the
  // move.
  double deaths_in_moves = 0;
  // Deaths of the server of a slice or of its replica, at each point of a forwarded push.
  double deaths_in_forwards = 0;
  Duration slow_disk{0};  // maximum duration of a write
  // Maximum of a quarter of the pauses, in place of 2.5 s, and of all pauses of coordinators with directories
  // of their own. 0: none
  Duration longest_pause{0};
  Duration longest_cut{0};     // maximum duration of an isolation
  Duration fault_interval{0};  // mean time between deaths, pauses and stops; 0: none
  Time until{0};               // end of all faults
};

// A fault at a fixed time.
struct PlannedFault {
  enum class What : uint8_t {
    kKill = 0,
    kPause = 1,
    kLeave = 2,
    kStart = 3,
    kDrain = 4,     // the coordinator tells a worker to leave
    kCutOff = 5,    // from the coordinator
    kPauseJob = 6,  // a command, until another one continues it
  } what = What::kKill;
  Time at{0};
  protocol::Role role = protocol::Role::kWorker;
  // Among the live processes of the role, in the order of their start. kCoordinator: the address, 0 or 1, at
  // which the next one starts.
  uint32_t index = 0;
  Duration lasts{0};      // kPause, kCutOff, kPauseJob; kKill of the coordinator: until the next one starts
  bool replaced = false;  // kKill: a replacement starts a second later
  bool standby = false;   // kStart: a worker that stands by
};

// The named points of a push and of a checkpoint, and who dies there.
enum class DeathPoint : uint8_t {
  kBeforePush = 0,      // a worker that has computed a run
  kPushed = 1,          // a worker whose push is on its way
  kBeforeApply = 2,     // a server that has received a push
  kApplied = 3,         // a server that has applied it, and has acknowledged nothing
  kBeforeShard = 4,     // a process that is told to save a shard
  kShardSaved = 5,      // a process that has saved it, before anyone knows
  kBeforeManifest = 6,  // the coordinator, when all shards are saved
  kManifestSaved = 7,   // the coordinator, when the checkpoint is complete, before anyone knows
};
constexpr size_t kDeathPoints = 8;
LEAT_ENUM(DeathPoint, (kBeforePush, "before a push"), (kPushed, "after a push has left"),
          (kBeforeApply, "before a push is applied"), (kApplied, "between apply and acknowledgement"),
          (kBeforeShard, "before a shard is saved"), (kShardSaved, "after a shard is saved"),
          (kBeforeManifest, "before a checkpoint is complete"),
          (kManifestSaved, "after a checkpoint is complete"));

// The named points of a move of slices between two servers.
enum class MovePoint : uint8_t {
  kOrdered = 0,   // the server that has the slices begins to connect
  kFrozen = 1,    // it sends them, and takes no pushes to them any more
  kArrived = 2,   // the other server has them, and nobody else knows
  kMade = 3,      // the coordinator has decided, and the other server goes on with them
  kReleased = 4,  // the first server knows
};
enum class MovePart : uint8_t { kFrom = 0, kTo = 1, kCoordinator = 2 };

// A death when the first move comes to a point.
struct MoveDeath {
  MovePoint point = MovePoint::kOrdered;
  MovePart who = MovePart::kFrom;
};

// The named points of a push to a slice with a replica.
enum class ForwardPoint : uint8_t {
  kApplied = 0,       // the primary has it, and has not forwarded it
  kForwarded = 1,     // it is on its way to the replica
  kTaken = 2,         // the replica has it, and the primary does not know
  kAcknowledged = 3,  // the primary knows, and has not answered the worker
};

// Which server dies at the first push from a time on that comes to a point, once all slices have replicas.
struct ForwardDeath {
  ForwardPoint point = ForwardPoint::kApplied;
  bool primary = true;  // else that of the replica
  Time from{0};
};

// Processes die at random, each after this time on average, and start again on the same host.
struct Deaths {
  Duration mean_time_between{0};  // 0: none
  Duration restart{0};
};

struct FaultOptions {
  Faults faults;
  Deaths deaths;
  std::vector<PlannedFault> plan;
  std::optional<MoveDeath> move_death;
  std::optional<ForwardDeath> forward_death;
};

}  // namespace leat::sim

// The machines on which a virtual cluster's processes run: their links, and those of their zones; their
// cores; and what workers do on them: they read and decode splits, and compute batches.
//
// Processes of one machine do not use its link. For messages this only computes times: the concerns that send
// schedule their own events. Machines with too few cores divide them. A batch is trained when its task
// begins, and its outcome is known when the task ends; a worker that has joined again meanwhile drops it. A
// worker reads splits in parts and decodes them one after the other, ahead of its training; without an input,
// a split takes a random time. Parts share the source's link with other workers, and the worker's with other
// messages.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/clock.h"
#include "lab/sim/events/memory.h"
#include "lab/sim/hosts/link_queue.h"
#include "lab/sim/members/role_process.h"
#include "protocol/actions.h"
#include "protocol/worker/worker.h"

namespace leat::sim {

// A message on its way to the receiver's link, or to that of its sender's zone.
struct Departure {
  Time left{0};  // its last byte, from the sender
  Time first{0}, last{0};
  Route route = Route::kLink;
};

// Cores of a host that has fewer of them than its roles have threads. All threads that have work get the same
// share of the cores (processor sharing), at most a core each.
//
// A pure data structure over virtual time; calls are in the order of time. Not thread-safe.
class SharedCores {
 public:
  explicit SharedCores(double cores) : cores_(cores) {}

  // The part of a core that each busy thread has, with `more` further ones.
  double Share(uint32_t more = 0) const;
  // A task with this much work for each of its threads begins.
  void Begin(Time now, uint32_t task, Duration work, uint32_t threads = 1);
  // When the next task ends, unless another one begins before; Time::max() if there is none.
  Time NextEnd() const;
  // Ends a task that is done by `now`; false if there is none.
  bool End(Time now, uint32_t* task);

 private:
  struct Task {
    double end = 0;  // on the clock `work_`
    uint64_t order = 0;
    uint32_t task = 0;
    uint32_t threads = 0;
    // For a heap with the first end on top.
    friend bool operator<(const Task& a, const Task& b) {
      return a.end != b.end ? a.end > b.end : a.order > b.order;
    }
  };
  void Advance(Time now);

  double cores_;
  uint32_t threads_ = 0;  // threads of all tasks
  double work_ = 0;       // ns of work that a thread would have done that was always busy
  Time now_{0};           // time of `work_`
  uint64_t order_ = 0;
  std::vector<Task> tasks_;  // a heap
};

class Machines : Concern {
 public:
  // Tasks of shared cores: batches by their number, and
  static constexpr uint32_t kDecodes = 1u << 31;   // splits, by that of their decoding
  static constexpr uint32_t kServes = UINT32_MAX;  // a server's work on a message

  // Gives shared cores to the hosts that have fewer than their processes have threads.
  explicit Machines(ClusterConcerns& all);

  // Places a new process. `host`: index in the options' hosts, or HostState::kAny.
  void PutOnHost(RoleProcess* p, uint32_t host);
  topology::HostPlace PlaceOf(const RoleProcess& p) const;
  // Between the process and the coordinator, without faults.
  Duration RoundTripOf(const RoleProcess& p) const;

  // Sends bytes, not before `at`. `to`: null if there is no receiver. `in_order`: when the message before
  // arrives, and then this one; null: it may overtake others. `share` as in Concern::Latency.
  Departure Leaves(RoleProcess* from, const RoleProcess* to, uint64_t bytes, Time at, Time* in_order,
                   double share);
  // When the receiver has all of a message whose first byte is at its link.
  Time Comes(RoleProcess* to, uint64_t bytes, Time last_byte, Route route);
  // A message is at the link of a zone. Sets how far it is, and returns when it comes to the next one.
  Time Crosses(const RoleProcess* from, const RoleProcess* to, uint64_t bytes, Time* last_byte, Route* route);
  // Crosses both zones at once, for messages that are no events of their own.
  void CrossBoth(const RoleProcess& from, const RoleProcess& to, uint64_t bytes, Departure* departure);
  // A window of a message, but the last one, is at the next link of its route.
  void PassWindow(const HostState& from, HostState* to, uint64_t window, Route route);

  // ---- cores
  // Null if the process's host has enough cores.
  SharedCores* Of(const RoleProcess& p);
  void Begin(const RoleProcess& p, uint32_t task, Duration work, uint32_t threads);
  // The time that a process needs for a message, on its cores.
  Duration Busy(RoleProcess* p, uint64_t bytes);

  // ---- batches
  void Execute(const ProcessPtr& p, const protocol::Compute& a);
  // Trains a batch at once, and counts it in the worker's progress.
  protocol::BatchOutcome Train(const ProcessPtr& p, const protocol::Lease& lease, uint32_t batch, bool first);
  // Random time of a batch, with what the worker owes for messages.
  Duration DrawTime(RoleProcess* p);
  // Gives the machine the outcome when the task has ended.
  void EndAfter(const ProcessPtr& p, Duration takes, uint64_t token, const protocol::BatchOutcome& outcome);

  // ---- splits
  void Execute(const ProcessPtr& p, const protocol::PrepareSplit& a);
  void Execute(const ProcessPtr& p, const protocol::DropSplit& a);

  // ---- events
  // Ends the tasks that are done, and tells whose they are.
  void OnCores(uint32_t index);
  void OnComputed(uint32_t index);
  void OnChunkArrives(uint32_t index);
  void OnChunkDelivered(uint32_t index);
  void OnDecoded(uint32_t index);
  // As PushMessages::PrefetchEvent.
  void PrefetchEvent(uint32_t index, int hop);

 private:
  struct ZoneLink {
    LinkQueue out, in;
  };
  struct Decoding {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
  };
  struct Chunk {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
    uint64_t bytes = 0;
    Time last_byte{0};
  };
  struct Computation {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
    uint64_t token = 0;
    protocol::BatchOutcome outcome;
  };

  void ReadNext(const ProcessPtr& p);
  void RequestChunk(RoleProcess* p);
  // Decodes the split that has been read.
  void Decode(const ProcessPtr& p);
  void OnReady(const ProcessPtr& p, uint64_t lease);

  std::deque<HostState> hosts_;
  std::vector<ZoneLink> zones_;
  std::vector<SharedCores> shared_;
  Slab<Computation> computations_;
  LinkQueue source_{options_.input.link};
  Slab<Decoding> decodings_;
  Slab<Chunk> chunks_;
};

}  // namespace leat::sim

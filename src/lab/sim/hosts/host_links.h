// Links and cores of the hosts on which a virtual cluster's processes run.
//
// HostLinks carries bytes over the links of hosts and zones; processes of one host do not use its link.
// HostCores divides the cores of hosts that have too few. Both only compute times: the concerns that send or
// compute schedule their own events.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/clock.h"
#include "lab/sim/cluster/world.h"
#include "lab/sim/hosts/link_queue.h"
#include "lab/sim/hosts/shared_cores.h"

namespace leat::sim {

// A host's link and cores, in one cache line.
struct alignas(64) HostState {
  static constexpr uint32_t kEnoughCores = UINT32_MAX;
  LinkQueue down, up;
  Duration latency{0};
  uint32_t zone = 0;
  uint32_t cores = kEnoughCores;  // number of its shared cores
};

// A message on its way to the receiver's link, or to that of its sender's zone.
struct Departure {
  Time left{0};  // its last byte, from the sender
  Time first{0}, last{0};
  Route route = Route::kLink;
};

class HostLinks : Concern {
 public:
  // The next host of the role.
  static constexpr uint32_t kAnyHost = UINT32_MAX;

  explicit HostLinks(ClusterConcerns& all);

  std::deque<HostState>& hosts() { return hosts_; }
  // Places a new process. `host`: index in the options' hosts, or kAnyHost.
  void PutOnHost(RoleProcess* p, uint32_t host);
  topology::HostPlace PlaceOf(const RoleProcess& p) const;
  // Between the process and the coordinator, without faults.
  Duration RoundTripOf(const RoleProcess& p) const;

  // Sends bytes, not before `at`. `to`: null if there is no receiver. `in_order`: when the message before
  // arrives, and then this one; null: it may overtake others. `share` as in World::Latency.
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

 private:
  struct ZoneLink {
    LinkQueue out, in;
  };

  std::deque<HostState> hosts_;
  std::vector<ZoneLink> zones_;
};

class HostCores : Concern {
 public:
  // Tasks of shared cores: batches by their number, and
  static constexpr uint32_t kDecodes = 1u << 31;   // splits, by that of their decoding
  static constexpr uint32_t kServes = UINT32_MAX;  // a server's work on a message

  // Gives shared cores to the hosts that have fewer than their processes have threads.
  explicit HostCores(ClusterConcerns& all);

  // Null if the process's host has enough cores.
  SharedCores* Of(const RoleProcess& p);
  void Begin(const RoleProcess& p, uint32_t task, Duration work, uint32_t threads);
  // The time that a process needs for a message, on its cores.
  Duration Busy(RoleProcess* p, uint64_t bytes);
  // Ends the tasks that are done, and tells whose they are.
  void OnCores(uint32_t index);

 private:
  std::vector<SharedCores> shared_;
};

}  // namespace leat::sim

// A whole job in one thread: the unmodified coordinator, servers and workers of protocol/, with a virtual
// clock, network and disk.
//
// Links have a bandwidth and a latency, computation times are random, and servers need time for every byte.
// Faults happen at random or by plan: messages are delayed, lost and duplicated; processes pause, die, leave
// and are replaced; the coordinator crashes between any two of its actions and restarts from its journal; the
// job is stopped and resumed with another number of servers; and the stream grows meanwhile.
//
// A run is a pure function of its options, workload and hooks: one seed, one thread, no real clock. This
// folder makes no protocol decisions: it executes the machines' actions and reports the results.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "lab/sim/cluster/options.h"
#include "protocol/coordinator/coordinator_settings.h"

namespace leat::sim {

class Cluster;
class Disk;

// Observers, all called on the simulator's thread.
struct Hooks {
  std::function<void(Time, NodeId, const protocol::JoinRequest&)> on_join;
  // Each request that the coordinator receives.
  std::function<void(Time, const protocol::ControlRequest&)> on_request;
  // Each fault, in words.
  std::function<void(Time, const std::string&)> on_fault;
  // A subscriber has completed a sweep, that it began at the second time.
  std::function<void(Time, Time asked)> on_followed;
  // Called at this interval of virtual time; false ends the run.
  Duration watch_every{0};
  std::function<bool(const Cluster&)> watch;
};

class Cluster {
 public:
  Cluster(ClusterOptions options, Workload& workload, Hooks hooks = {});
  ~Cluster();

  ClusterResult Run();

  // ---- for hooks, and after the run
  Time now() const;
  uint64_t messages() const;
  protocol::CoordinatorStatus status() const;
  // The newest values of all slices, in table order; false if a slice has no server at present.
  bool Values(std::vector<float>* values) const;
  // As Values, from the newest checkpoint; false if there is none.
  bool Saved(std::vector<float>* values) const;
  const Disk& disk() const;
  // The last reported progress of every server that ever existed.
  std::vector<protocol::ServerProgress> servers() const;

 private:
  class Router;
  std::unique_ptr<Router> router_;
};

}  // namespace leat::sim

// The job's settings of its members, and their rows of the coordinator's status. Plain data. Rules are those
// settings that a job's file gives (coordinator/job_rules.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "protocol/messages_control.h"
#include "protocol/strategy.h"
#include "protocol/topology/host_place.h"
#include "protocol/topology/topology_settings.h"

namespace leat::protocol {

struct MemberRules {
  StrategyConfig strategy;
  topology::TopologySettings topology;
  // A role that is silent for longer than the timeout is evicted.
  Duration heartbeat_interval = std::chrono::milliseconds(500);
  Duration heartbeat_timeout = std::chrono::seconds(2);
  // A role that is alive, but has finished no kernel and sent no heartbeat for this long, is stuck.
  Duration stuck_timeout = std::chrono::minutes(15);
};

struct MemberSettings : MemberRules {
  uint32_t workers = 1;  // workers when the job starts; MPI: all its workers
  // After the first worker, before those that stand by take the places of others that have not come yet.
  Duration standby_wait = std::chrono::seconds(5);
  // This coordinator's term: higher than those of all former ones of this run (MakeTerm). 0: in tests with a
  // single coordinator.
  uint64_t term = 0;
  std::string job;                 // sent to each process that joins
  std::vector<std::string> feeds;  // addresses of the feeds in the coordinator's process
  // The coordinator's program and job. Processes with other values are rejected. Empty and 0: not compared.
  std::string version;
  uint64_t job_hash = 0;
  uint64_t network = 0;  // the coordinator's network, as JoinRequest::network; 0: unknown

  bool stepped() const { return strategy.stepped(); }
  bool all_reduce() const { return !strategy.on_servers(); }
};

struct MemberRows {
  std::vector<NodeId> stuck;  // members that are alive and do nothing
  // Stuck processes that have been evicted and have not joined again.
  struct Evicted {
    Member member;  // the member as it was
    std::string host;
    int64_t pid = 0;
  };
  std::vector<Evicted> stuck_evicted;
  // Workers and the servers that they cannot reach.
  std::vector<std::pair<NodeId, NodeId>> unreachable;
  uint64_t evictions = 0;
  // The last members that are gone, at most kDepartures, oldest first.
  struct Departure {
    uint64_t number = 0;  // counts all departures since the start, from 1 on
    Member member;        // the member as it was
    enum class How : uint8_t {
      kLeft,    // in order
      kLost,    // its process has ended, or another one has its place
      kEvicted  // it was silent, or held up others
    } how = How::kLeft;
  };
  static constexpr size_t kDepartures = 32;
  std::vector<Departure> departures;
  // Members that say where they are, or whose round trip to the coordinator is known.
  struct Whereabouts {
    NodeId node;
    topology::HostPlace place;
    Duration round_trip{};  // 0: unknown
  };
  std::vector<Whereabouts> whereabouts;
  // A line for each rule of places that does not hold, by what it is about: replicas in one zone, a member
  // that is too far away, a class that no host offers.
  std::map<std::string, std::string> misplaced;
};

LEAT_ENUM(MemberRows::Departure::How, (kLeft, "left"), (kLost, "lost"), (kEvicted, "evicted"));

}  // namespace leat::protocol

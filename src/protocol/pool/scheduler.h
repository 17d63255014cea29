// How many servers and workers each job of a pool gets: a pure function of what the hosts offer and what the
// jobs ask for.
//
// Jobs are ordered by priority, then by age. In this order each job is admitted if its minimum (coordinator,
// servers, workers) fits into what the minimums of the jobs before it have left. A running job that is not
// admitted is preempted as a whole. What the minimums leave is given to the admitted jobs by priority, up to
// what they want; within a priority by fair shares: the allocations of the jobs, in proportion to their
// shares, are as equal as minimum and want allow (max-min fairness). An allocation is measured by its
// dominant resource, the one of which it is the greatest part of the pool. Fair shares are real numbers; a
// job gets its share rounded down or up to whole workers. Up goes to the jobs that are owed most, so that in
// the long run each has its share.
//
// Hosts may have a class, and a job may want one for its coordinator, its servers or its workers. Jobs whose
// workers want a class share what the hosts of that class have.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields/fields.h"

namespace leat::pool {

struct Resources {
  uint64_t millicores = 0;
  uint64_t memory = 0;  // bytes

  bool Fits(const Resources& room) const { return millicores <= room.millicores && memory <= room.memory; }
  Resources& operator+=(const Resources& other);
  Resources& operator-=(const Resources& other);  // down to 0
  friend Resources operator+(Resources a, const Resources& b) { return a += b; }
};
LEAT_FIELDS(Resources, (millicores, AtMost(1'000'000'000)), (memory, AtMost(uint64_t{1} << 50)));
Resources operator*(uint32_t count, const Resources& each);

enum class ProcessRole : uint8_t { kCoordinator = 0, kServer = 1, kWorker = 2 };
LEAT_ENUM(ProcessRole, (kCoordinator, "coordinator"), (kServer, "ps"), (kWorker, "worker"));

struct PlacedProcess {
  ProcessRole role = ProcessRole::kWorker;
  uint32_t host = 0;    // index
  uint64_t number = 0;  // ProcessId::number of one that runs
  friend bool operator==(const PlacedProcess&, const PlacedProcess&) = default;
};

// A role's member of a struct that has one for each.
template <class Parts>
const auto& PartOf(const Parts& parts, ProcessRole role) {
  if (role == ProcessRole::kCoordinator) return parts.coordinator;
  return role == ProcessRole::kServer ? parts.server : parts.worker;
}

// The resources that each process of a role takes.
struct RoleResources {
  Resources coordinator, server, worker;
  const Resources& of(ProcessRole role) const { return PartOf(*this, role); }
};
LEAT_FIELDS(RoleResources, (coordinator), (server, As("ps")), (worker));

// The class of the hosts that a role runs on; empty: any host.
struct HostClasses {
  std::string coordinator, server, worker;
  const std::string& of(ProcessRole role) const { return PartOf(*this, role); }
};
LEAT_FIELDS(HostClasses, (coordinator, AtMost(256), Printable), (server, As("ps"), AtMost(256), Printable),
            (worker, AtMost(256), Printable));

struct HostOffer {
  Resources offer;
  Resources free;  // resources that no process has at present; new processes are planned where most is free
  std::string host_class;
  friend bool operator==(const HostOffer&, const HostOffer&) = default;
};

// A job that runs or waits.
struct JobDemand {
  uint64_t id = 0;  // lower for an older job
  int32_t priority = 0;
  double share = 1;  // > 0
  RoleResources resources;
  HostClasses classes;
  uint32_t least_servers = 0, servers = 0;  // minimum and want
  uint32_t least_workers = 1, workers = 1;
  std::optional<uint32_t> home;  // the host that has its directory; none: any host may
  bool lost_home = false;        // the home host is not there
  bool leaves = false;           // it is being preempted: it starts again once its processes have ended
  std::vector<PlacedProcess> processes;
  double owed = 0;  // core-seconds that it has had less than its fair share

  uint32_t Count(ProcessRole role) const;
  friend bool operator==(const JobDemand&, const JobDemand&) = default;
};

struct JobGrant {
  bool admitted = false;
  uint32_t servers = 0, workers = 0;
  double fair_workers = 0;  // the fair share: a real number of workers, in addition to the other processes
  // Servers and workers (number) that have to run elsewhere, because jobs before this one need their hosts.
  // Not of a role with more processes than are granted, since these leave first.
  std::vector<uint64_t> displaced;
  friend bool operator==(const JobGrant&, const JobGrant&) = default;
};

// Returns the grants in the order of `jobs`.
std::vector<JobGrant> Schedule(const std::vector<HostOffer>& hosts, const std::vector<JobDemand>& jobs);

// A process to start now.
struct Start {
  size_t job = 0;  // index
  PlacedProcess process;
  friend bool operator==(const Start&, const Start&) = default;
};

// The processes that the grants allow and that fit into what is free now. A job begins with its whole minimum
// or not at all. While it waits for that, no job after it grows.
std::vector<Start> NextStarts(std::vector<HostOffer> hosts, const std::vector<JobDemand>& jobs,
                              const std::vector<JobGrant>& grants);

// Whether the job could run if it were alone on these hosts.
bool FitsAlone(const std::vector<HostOffer>& hosts, const JobDemand& job);

// Returns what the hosts lack for the minimum of a job that is alone; empty: nothing.
std::string Lacking(const std::vector<HostOffer>& hosts, const JobDemand& job);
std::string ResourcesText(const Resources& resources);  // "4 cores and 512 MB"

}  // namespace leat::pool

// Messages between agents and the pool. The pool's replies describe the wanted state, again and again, so a
// message that is lost is repeated by the next one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/pool/scheduler.h"

namespace leat::pool {

using JobId = uint64_t;  // 1, 2, …

inline constexpr uint64_t kMostEntries = 100'000;  // entries of a list in a message

// A process of a job. Its number is never used again in the pool; its index is for people: ps 0, ps 1.
struct ProcessId {
  JobId job = 0;
  ProcessRole role = ProcessRole::kWorker;
  uint64_t number = 0;
  uint32_t index = 0;
  friend auto operator<=>(const ProcessId&, const ProcessId&) = default;
};
LEAT_FIELDS(ProcessId, (job), (role), (number), (index));

// The wants of a coordinator, as its agent has read them from the status.
struct JobWant {
  JobId job = 0;
  uint32_t servers = 0, workers = 0;  // 0 workers: not known yet
  uint64_t events = 0;                // trained
  bool lost = false;                  // the coordinator does not answer
};
LEAT_FIELDS(JobWant, (job), (servers, AtMost(100'000)), (workers, AtMost(100'000)), (events), (lost));

struct AgentReport {
  std::string pool;       // the id of the pool whose jobs its directory has; empty: it has none
  std::string agent;      // its name, unique in the pool
  uint64_t instance = 0;  // a random number of the agent's process
  uint64_t sequence = 0;  // number of this report in the instance
  std::string host;       // name or address that others reach its processes at
  Resources offer;
  std::string host_class;  // empty: none
  struct Running {
    ProcessId id;
    std::string address;  // address of a coordinator that accepts calls; else empty
    std::string waits;    // condition that a coordinator waits for, such as its brokers; empty: none
  };
  std::vector<Running> running;
  struct Ended {
    uint64_t event = 0;  // 1, 2, … in the instance
    ProcessId id;
    int32_t exit_code = 0;  // 128 + signal
    std::string error;      // its last error line; may be empty
    // The host is to blame: it could not start the process, or its disk is full or takes no writes.
    bool host_failed = false;
  };
  std::vector<Ended> ended;  // exits that no reply has acknowledged
  std::vector<JobWant> wants;
  std::vector<JobId> renews;  // half of the life of their certificates there is over
};
LEAT_FIELDS(AgentReport::Running, (id, Flat), (address, AtMost(256)), (waits, AtMost(4096)));
LEAT_FIELDS(AgentReport::Ended, (event), (id, Flat), (exit_code, Between(-1'000'000'000, 1'000'000'000)),
            (error, AtMost(4096)), (host_failed));
LEAT_FIELDS(AgentReport, (pool, AtMost(256), Printable), (agent, AtMost(256), Printable), (instance),
            (sequence), (host, AtMost(256)), (offer), (host_class, As("class"), AtMost(256), Printable),
            (running, AtMost(kMostEntries)), (ended, AtMost(kMostEntries)), (wants, AtMost(kMostEntries)),
            (renews, AtMost(kMostEntries)));
// The host becomes a part of a path.
Status Check(const AgentReport& report);

struct AgentOrders {
  uint64_t acknowledged = 0;  // AgentReport::Ended::event, and all before
  struct StartProcess {
    ProcessId id;
    std::string coordinator;  // its address; a coordinator that is started again listens on it
    // A coordinator begins the job, or resumes what its directory has. In that case members of the job may
    // be alive.
    bool again = false;
    bool resumes = false;  // the job has begun there: without its directory nothing is started
    std::string bucket;    // the coordinator resumes the job from here, and not from a directory; empty: none
  };
  std::vector<StartProcess> starts;
  // For the coordinators of this agent.
  struct Grant {
    JobId job = 0;
    uint32_t servers = 0, workers = 0;
  };
  std::vector<Grant> grants;
  struct Stop {
    JobId job = 0;
    bool discard = false;  // without another checkpoint
  };
  std::vector<Stop> stops;      // jobs whose coordinators, at this agent, should end them
  std::vector<ProcessId> ends;  // processes to end by a signal
};
LEAT_FIELDS(AgentOrders::StartProcess, (id, Flat), (coordinator, AtMost(256)), (again), (resumes),
            (bucket, AtMost(4096)));
LEAT_FIELDS(AgentOrders::Grant, (job), (servers), (workers));
LEAT_FIELDS(AgentOrders::Stop, (job), (discard));
LEAT_FIELDS(AgentOrders, (acknowledged), (starts, AtMost(kMostEntries)), (grants, AtMost(kMostEntries)),
            (stops, AtMost(kMostEntries)), (ends, AtMost(kMostEntries)));

}  // namespace leat::pool

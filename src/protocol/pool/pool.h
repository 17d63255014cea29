// A pool: queues jobs, grants them servers and workers on the hosts of its agents, and has their processes
// started there. Members, slices and leases are the coordinators' own affair.
//
// A job is queued until the scheduler admits it, runs with what it is granted, and is preempted when jobs
// before it need its minimum: its coordinator writes a checkpoint and ends the job, which is queued again.
// Processes that end are started again after a pause. Those with a status that may heal (base/exit_status.h)
// are so however often; others only some times in a row. A host that cannot start processes is left out for a
// while; what runs there goes on.
//
// What happens to a job is in its record, which the shell writes before it answers or acts. What runs is
// learned from the agents, so a new pool goes on where the last one died; until they have reported, it
// decides nothing. An agent that has been silent for a day is forgotten.
//
// Pure: time and messages are arguments. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/pool/job_book.h"

namespace leat::pool {

// A job as it is now, for people.
struct JobStatus {
  JobRecord record;
  std::string coordinator;  // address; empty: none
  JobGrant grant;
  uint32_t servers = 0, workers = 0;  // processes
  double cores = 0, fair_cores = 0, core_seconds = 0;
  uint64_t events = 0;
  std::string waiting;  // why it does not run, or not with all of its processes; empty: it does, or is over
};
struct AgentStatus {
  std::string name, host, host_class;
  Resources offer, free;
  uint32_t processes = 0;
  bool lost = false;
  std::string left_out;  // why it gets no new processes for a while; empty: it does
};

class Pool {
 public:
  // `records`: of the pool before.
  Pool(Time now, const PoolConfig& config, std::vector<JobRecord> records);

  // Whether the agents of now could run the job if it were alone. kFailedPrecondition: what they lack.
  Status CheckRoom(Time now, const JobSpec& spec) const;
  // Queues a job under an id that no job has had. The spec must have passed Check.
  JobId Submit(Time now, const JobSpec& spec);
  // Ends a job: with a checkpoint, unless `discard`. kNotFound: there is none, or it is over.
  Status Cancel(Time now, JobId job, bool discard);
  // kUnavailable: another agent with this name is alive. kStale: the report is older than the last one.
  Result<AgentOrders> OnReport(Time now, const AgentReport& report);
  // Decides what runs. To be called a few times a second.
  void Decide(Time now);

  // The records that have changed since the last call. The shell makes them durable before it sends any
  // reply that it has got since.
  std::vector<JobRecord> TakeChanged() { return jobs_.TakeChanged(); }
  // Jobs that have been forgotten since the last call.
  std::vector<JobRecord> TakeForgotten() { return jobs_.TakeForgotten(); }
  // In the order of their numbers.
  std::vector<JobStatus> jobs(Time now) const;
  std::optional<JobStatus> job(Time now, JobId id) const;
  // The jobs that a report or decision looks at.
  size_t live_jobs() const { return jobs_.live().size(); }
  std::vector<AgentStatus> agents(Time now) const;
  bool settled() const { return jobs_.settled(); }

 private:
  using Job = PoolJob;
  using Process = JobProcess;
  struct Agent {
    AgentReport last;
    Time heard{0};
    std::vector<ProcessId> orphans;  // processes of jobs that have been forgotten
    uint32_t failures = 0;           // failures of the host in a row
    std::string trouble;             // the last of them
    Time out_until{0};               // no process is started there before
    bool IsOut(Time now) const { return now < out_until; }
  };

  bool Lost(Time now, const Agent& agent) const { return now - agent.heard > config_.agent_timeout; }
  const Agent* Live(Time now, const std::string& name) const;
  void Take(Time now, const AgentReport& report);
  void OnEnded(Time now, Agent* agent, const AgentReport::Ended& ended);
  void LeaveOut(Time now, Agent* agent, const std::string& why);
  JobStatus StatusOf(Time now, const Job& job) const;
  void DropLost(Time now);
  void Settle(Time now);
  void Account(Time now);
  void Rank(Time now);
  void Plan(const std::vector<Job*>& jobs);
  void Obey(Time now, Job* job, const JobGrant& grant, bool lost_home);
  void EndOverdue(Time now, Job* job);
  bool IsQuiet() const;
  void GiveWay(Time now, Job* job);
  void Launch(Job* job, ProcessRole role, const std::string& agent);
  Resources FreeOf(const std::string& name, const Agent& agent) const;
  JobDemand DemandOf(const Job& job, const std::map<std::string, uint32_t>& hosts) const;
  AgentOrders OrdersFor(const std::string& name, const Agent& agent) const;
  void ExplainWaiting(Time now, Job* job, const std::vector<HostOffer>& hosts, const JobDemand& demand);
  std::string LeftOut(Time now, const Agent& agent) const;

  const PoolConfig config_;
  const Time start_;
  JobBook jobs_;
  std::map<std::string, Agent> agents_;
  std::vector<JobId> ranked_jobs_;  // jobs that ran at the time of the ranking
  Time ranked_at_{0};
  Time accounted_at_{0};
  uint64_t last_number_ = 0;
  // The last schedule, and what it follows from.
  struct Inputs {
    std::vector<HostOffer> hosts;  // hosts that are left out offer what their processes have
    std::vector<HostOffer> whole;  // none is left out
    std::vector<JobDemand> jobs;
    friend bool operator==(const Inputs&, const Inputs&) = default;
  } inputs_;
  std::vector<JobGrant> grants_;
};

}  // namespace leat::pool

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
// decides nothing. Jobs that are over cost nothing but memory, and are forgotten in the end: the oldest ones
// beyond a number, and those that have been over for some days. The newest job stays, since numbers of jobs
// go on from it. An agent that has been silent for a day is forgotten, too.
//
// Pure: time and messages are arguments. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/pool/messages.h"
#include "protocol/pool/scheduler.h"

namespace leat::pool {

struct JobSpec {
  std::string name;
  int32_t priority = 0;
  double share = 1;
  RoleResources resources;
  HostClasses classes;
  uint32_t servers = 0;
  uint32_t least_workers = 1;
  uint32_t workers = 1;  // number of workers that it wants at first
  // "s3://bucket/prefix": has its checkpoints, and its events are on no host. Empty: they are on one host.
  std::string bucket;
};
LEAT_FIELDS(JobSpec, (name, AtMost(256), Printable), (priority), (share), (resources, Flat), (classes),
            (servers), (least_workers), (workers), (bucket, AtMost(4096)));
// Returns an error, in one line, with the value that cannot be; ok if there is none.
Status Check(const JobSpec& spec);

enum class JobState : uint8_t {
  kQueued = 0,
  kRunning = 1,     // or it starts
  kPreempting = 2,  // it saves a checkpoint, and is queued again
  kStopping = 3,    // a user or an error ends it
  kDone = 4,
  kFailed = 5,
  kCancelled = 6,
};
LEAT_ENUM(JobState, (kQueued, "queued"), (kRunning, "running"), (kPreempting, "preempting"),
          (kStopping, "stopping"), (kDone, "done"), (kFailed, "failed"), (kCancelled, "cancelled"));
bool IsOver(JobState state);

// The state of a job that has to survive the pool.
struct JobRecord {
  JobId id = 0;
  JobSpec spec;
  JobState state = JobState::kQueued;
  std::string home;    // the agent whose host has its directory; empty: none yet
  bool begun = false;  // its coordinator has had an address, so the job has a directory at its home
  bool saved = false;  // it was preempted, and all of it is in its bucket: any host can resume it
  // The address of its coordinator, also of one that is to be started again there; empty: none.
  std::string address;
  bool discard = false;  // kStopping: without another checkpoint
  std::string reason;    // kStopping, kFailed: why, one line; a cancelled job has none
  uint32_t preemptions = 0;
  int64_t over_s = 0;  // when it ended, in seconds since 1970; 0: it has not
};
LEAT_FIELDS(JobRecord, (id), (spec), (state, Numbered), (home, AtMost(256)), (begun, Since(3)), (saved),
            (address, AtMost(256)), (discard), (reason, AtMost(8192)), (preemptions),
            (over_s, Since(2), Between(0, int64_t{1} << 40)));

struct PoolConfig {
  uint64_t run = 1;  // number of the pool's run: one higher than the run before, below 2^31
  Duration agent_timeout = std::chrono::seconds(10);  // without a report
  Duration quantum = std::chrono::seconds(30);        // between two looks at who is owed most
  Duration grace = std::chrono::seconds(60);          // to give back what is not granted any more
  Duration stop_timeout = std::chrono::minutes(10);   // to save a checkpoint and end
  Duration settle = std::chrono::seconds(2);          // after the start, for agents to report
  int64_t start_s = 0;                                // the start in seconds since 1970
  uint32_t most_over = 1000;                          // jobs that are over, and not forgotten
  Duration keep_over = std::chrono::hours(7 * 24);    // how long they are not
};

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
  std::vector<JobRecord> TakeChanged();
  // Jobs that have been forgotten since the last call.
  std::vector<JobRecord> TakeForgotten() { return std::exchange(forgotten_, {}); }
  // In the order of their numbers.
  std::vector<JobStatus> jobs(Time now) const;
  std::optional<JobStatus> job(Time now, JobId id) const;
  // The jobs that a report or decision looks at: those that are not over, or have processes.
  size_t live_jobs() const { return jobs_.size(); }
  std::vector<AgentStatus> agents(Time now) const;
  bool settled() const { return settled_; }

 private:
  struct Process {
    ProcessId id;
    std::string agent;
    bool again = false;  // AgentOrders::StartProcess::again
    bool first = false;  // a coordinator of a job that has no home yet
    bool seen = false;   // the agent has reported it
  };
  struct Job {
    JobRecord record;
    std::map<uint64_t, Process> processes;  // by number
    JobWant want;
    JobGrant grant;
    bool granted = false;  // there is a decision
    double owed = 0, ranked = 0, core_seconds = 0;
    uint32_t failures = 0;  // failures of its processes since it last trained events
    uint32_t retries = 0;   // failures since then that may heal
    std::string trouble;    // the last failure of either kind
    Time retry_at{0};
    std::optional<Time> over_since;  // it has more than is granted
    std::optional<Time> stopping_since;
    std::string coordinator_waits;  // as reported
    bool accepts_calls = false;     // its coordinator
    std::string waiting;
    const Process* coordinator() const;
    uint32_t Count(ProcessRole role) const;
  };
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
  const Job* Find(JobId id) const;  // null: there is none
  const Agent* Live(Time now, const std::string& name) const;
  void Change(Job* job) { changed_.push_back(job->record.id); }
  void Take(Time now, const AgentReport& report);
  void EndFormerCoordinators(const Job& job);
  void OnEnded(Time now, Agent* agent, const AgentReport::Ended& ended);
  void LeaveOut(Time now, Agent* agent, const std::string& why);
  void OnCoordinatorEnded(Time now, Job* job, int32_t exit_code, const std::string& error,
                          bool has_begun = true);
  void Failed(Time now, Job* job, const std::string& name, int32_t exit_code, const std::string& error);
  void Queue(Job* job);
  void End(Time now, Job* job, JobState state, const std::string& reason);
  int64_t SecondsAt(Time now) const;
  void Retire();
  void Forget(Time now);
  JobStatus StatusOf(Time now, const Job& job) const;
  void Stop(Time now, Job* job, bool discard, const std::string& reason);
  void DropLost(Time now);
  void Settle(Time now);
  void Account(Time now);
  void Rank(Time now);
  void Plan(const std::vector<Job*>& jobs);
  void Obey(Time now, Job* job, const JobGrant& grant, bool lost_home);
  void EndOverdue(Time now, Job* job);
  void Preempt(Time now, Job* job);
  bool IsQuiet() const;
  void GiveWay(Time now, Job* job);
  void EndProcesses(const Job& job);
  void Launch(Job* job, ProcessRole role, const std::string& agent);
  bool Ends(const Job& job) const;  // it is not running, and has processes
  Resources FreeOf(const std::string& name, const Agent& agent) const;
  JobDemand DemandOf(const Job& job, const std::map<std::string, uint32_t>& hosts) const;
  AgentOrders OrdersFor(const std::string& name, const Agent& agent) const;
  void ExplainWaiting(Time now, Job* job, const std::vector<HostOffer>& hosts, const JobDemand& demand);
  std::string LeftOut(Time now, const Agent& agent) const;

  const PoolConfig config_;
  const Time start_;
  std::map<JobId, Job> jobs_;
  std::map<JobId, Job> over_;                          // without processes
  std::set<std::pair<int64_t, JobId>> over_in_order_;  // by the time of their end
  std::vector<JobRecord> forgotten_;
  JobId last_job_ = 0;
  std::map<std::string, Agent> agents_;
  std::set<uint64_t> ending_;  // numbers of the processes that a signal should end
  std::vector<JobId> changed_;
  std::vector<JobId> ranked_jobs_;  // jobs that ran at the time of the ranking
  Time ranked_at_{0};
  Time accounted_at_{0};
  bool settled_ = false;
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

// The jobs of a pool: their records, their processes, and what happens to them when they are stopped, or when
// a process ends. Jobs that are over cost nothing but memory, and are forgotten in the end: the oldest ones
// beyond a number, and those that have been over for some days. The newest job stays, since numbers of jobs
// go on from it.
//
// Pure: time is an argument. Not thread-safe.
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
#include "protocol/pool/scheduler.h"

namespace leat::pool {

// ---- messages between agents and the pool. The pool's replies describe the wanted state, again and again,
// so a message that is lost is repeated by the next one.

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

struct JobProcess {
  ProcessId id;
  std::string agent;
  bool again = false;  // AgentOrders::StartProcess::again
  bool first = false;  // a coordinator of a job that has no home yet
  bool seen = false;   // the agent has reported it
};
struct PoolJob {
  JobRecord record;
  std::map<uint64_t, JobProcess> processes;  // by number
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
  const JobProcess* coordinator() const;
  bool TakesMembers() const {  // its coordinator can be joined
    const JobProcess* const own = coordinator();
    return own != nullptr && own->seen && !record.address.empty();
  }
  uint32_t Count(ProcessRole role) const;
  bool Ends() const {  // it is not running, and has processes
    return record.state == JobState::kPreempting || (record.state == JobState::kQueued && !processes.empty());
  }
};
class JobBook {
 public:
  using Jobs = std::map<JobId, PoolJob>;

  // `records`: of the pool before.
  JobBook(Time now, const PoolConfig& config, std::vector<JobRecord> records);

  // Jobs that are not over, or have processes.
  Jobs& live() { return jobs_; }
  const Jobs& live() const { return jobs_; }
  const Jobs& over() const { return over_; }  // without processes
  PoolJob* FindLive(JobId id);
  const PoolJob* Find(JobId id) const;  // null: there is none
  bool Had(JobId id) const { return id <= last_job_; }
  // All processes are known: a job without a coordinator has none.
  bool settled() const { return settled_; }
  void Settle() { settled_ = true; }

  JobId Add(const JobSpec& spec);
  // A job that is over has processes, as its agent reports: it is live again.
  void Reopen(JobId id);
  // Its record is to be written.
  void Change(const PoolJob& job) { changed_.push_back(job.record.id); }
  void Stop(Time now, PoolJob* job, bool discard, const std::string& reason);
  void Preempt(Time now, PoolJob* job);
  void Queue(PoolJob* job);
  void End(Time now, PoolJob* job, JobState state, const std::string& reason);
  // `has_begun`: the job may have a directory there that it goes on from.
  void OnCoordinatorEnded(Time now, PoolJob* job, int32_t exit_code, const std::string& error,
                          bool has_begun = true);
  void OnFailed(Time now, PoolJob* job, const std::string& name, int32_t exit_code, const std::string& error);

  // Numbers of the processes that a signal should end. Those that an agent does not know yet are not started.
  std::set<uint64_t>& ending() { return ending_; }
  const std::set<uint64_t>& ending() const { return ending_; }
  void EndProcesses(const PoolJob& job);

  // Puts aside the jobs that are over, and forgets the oldest.
  void Retire(Time now);
  std::vector<JobRecord> TakeChanged();
  std::vector<JobRecord> TakeForgotten() { return std::exchange(forgotten_, {}); }

 private:
  int64_t SecondsAt(Time now) const;

  const PoolConfig config_;
  const Time start_;
  Jobs jobs_, over_;
  std::set<std::pair<int64_t, JobId>> over_in_order_;  // by the time of their end
  std::vector<JobRecord> forgotten_;
  std::vector<JobId> changed_;
  std::set<uint64_t> ending_;
  JobId last_job_ = 0;
  bool settled_ = true;
};

// "the coordinator", "ps 0"
std::string NameOf(const ProcessId& id);
// How long to wait after something that has happened `times` times before.
Duration PauseAfter(uint32_t times, Duration first, Duration most);
inline constexpr int32_t kKilled = 128 + 9;  // an exit code

}  // namespace leat::pool

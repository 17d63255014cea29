#include "protocol/pool/pool.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/exit_status.h"
#include "base/text.h"

namespace leat::pool {
namespace {

// A host that cannot start processes is left out for so long; twice as long each time in a row.
constexpr Duration kFirstOut = std::chrono::seconds(5);
constexpr Duration kMostOut = std::chrono::minutes(5);
// An agent that is alive is heard more often.
constexpr Duration kSilentInstance = std::chrono::seconds(2);
constexpr Duration kForgottenAgent = std::chrono::hours(24);  // without a report
double Cores(const Resources& resources) {
  return static_cast<double>(resources.millicores) / 1000;
}

}  // namespace

Status Check(const AgentReport& report) {
  const auto bad = [](const std::string& what) { return Status(Code::kInvalidArgument, what); };
  if (report.agent.empty()) return bad("the agent has no name");
  const bool good = std::ranges::all_of(report.host, [](char c) {
    return IsLetterOrDigit(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' || c == ']';
  });
  if (!good || report.host.empty() || report.host.front() == '.') return bad("host is no host");
  return {};
}

Pool::Pool(Time now, const PoolConfig& config, std::vector<JobRecord> records)
    : config_(config),
      start_(now),
      jobs_(now, config, std::move(records)),
      ranked_at_(now),
      accounted_at_(now),
      last_number_(config.run << 32) {}

Status Pool::CheckRoom(Time now, const JobSpec& spec) const {
  std::vector<HostOffer> hosts;
  for (const auto& [name, agent] : agents_) {
    if (!Lost(now, agent)) hosts.push_back({agent.last.offer, agent.last.offer, agent.last.host_class});
  }
  const JobDemand demand{.resources = spec.resources,
                         .classes = spec.classes,
                         .least_servers = spec.servers,
                         .servers = spec.servers,
                         .least_workers = spec.least_workers,
                         .workers = spec.least_workers};
  const std::string lacking = Lacking(hosts, demand);
  return lacking.empty() ? Status() : Status(Code::kFailedPrecondition, "the job needs " + lacking);
}

JobId Pool::Submit(Time now, const JobSpec& spec) {
  const JobId id = jobs_.Add(spec);
  Decide(now);
  return id;
}

Status Pool::Cancel(Time now, JobId id, bool discard) {
  const Job* const found = jobs_.Find(id);
  if (found == nullptr) return {Code::kNotFound, "the pool has no job " + std::to_string(id)};
  if (const JobState state = found->record.state; IsOver(state))
    return {Code::kNotFound,
            "job " + std::to_string(id) + " is over: it is " + std::string(fields::NameOf(state))};
  Job* const job = jobs_.FindLive(id);
  if (job->record.state == JobState::kQueued) {
    jobs_.End(now, job, JobState::kCancelled, "");
  } else {
    jobs_.Stop(now, job, discard, "");
  }
  return {};
}

const Pool::Agent* Pool::Live(Time now, const std::string& name) const {
  const auto at = agents_.find(name);
  return at == agents_.end() || Lost(now, at->second) ? nullptr : &at->second;
}

Result<AgentOrders> Pool::OnReport(Time now, const AgentReport& report) {
  Agent& agent = agents_[report.agent];
  const bool first = agent.last.agent.empty();
  if (!first && agent.last.instance != report.instance)
    agent.out_until = Time{0};  // it may have been repaired
  if (!first && agent.last.instance != report.instance && now - agent.heard < kSilentInstance) {
    return Status(Code::kUnavailable, "another agent named '" + report.agent + "', on " + agent.last.host +
                                          ", is alive; give each agent a name of its own");
  }
  if (!first && agent.last.instance == report.instance && report.sequence <= agent.last.sequence)
    return Status(Code::kStale, "an old report");
  agent.heard = now;
  agent.last = report;
  Take(now, report);
  return OrdersFor(report.agent, agent);
}

void Pool::Take(Time now, const AgentReport& report) {
  Agent& agent = agents_[report.agent];
  agent.orphans.clear();
  std::set<uint64_t> reported;
  for (const auto& [id, address, waits] : report.running) {
    reported.insert(id.number);
    jobs_.Reopen(id.job);  // its host was silent meanwhile
    Job* const known = jobs_.FindLive(id.job);
    if (known == nullptr) {
      if (jobs_.Had(id.job)) agent.orphans.push_back(id);
      continue;
    }
    Job& job = *known;
    Process& process = job.processes[id.number];
    process.id = id;
    process.agent = report.agent;
    if (!process.seen && !agent.IsOut(now)) agent.failures = 0;
    process.seen = true;
    JobRecord& record = job.record;
    if (IsOver(record.state) || record.state == JobState::kQueued) jobs_.ending().insert(id.number);
    if (id.role != ProcessRole::kCoordinator) continue;
    // The host of a former one was silent while the job has gone on elsewhere.
    for (const auto& [number, other] : job.processes) {
      if (other.id.role == ProcessRole::kCoordinator && &other != job.coordinator())
        jobs_.ending().insert(number);
    }
    if (job.coordinator() == &process) {
      job.coordinator_waits = waits;
      job.accepts_calls = !address.empty();
    }
    if (address.empty() || job.coordinator() != &process) continue;
    if (record.home == report.agent && record.address == address && record.begun && !record.saved) continue;
    record.home = report.agent;
    record.address = address;
    record.begun = true;
    record.saved = false;
    jobs_.Change(job);
  }
  for (const auto& ended : report.ended) OnEnded(now, &agent, ended);
  // The agent has been restarted, and its processes have ended with it; or they have never been started.
  for (auto& [job_id, job] : jobs_.live()) {
    std::vector<ProcessId> gone;
    for (const auto& [number, process] : job.processes) {
      const bool here = process.agent == report.agent && !reported.contains(number);
      if (here && (process.seen || jobs_.ending().contains(number))) gone.push_back(process.id);
    }
    for (const ProcessId& id : gone) {
      job.processes.erase(id.number);
      jobs_.ending().erase(id.number);
      if (id.role == ProcessRole::kCoordinator && job.coordinator() == nullptr)
        jobs_.OnCoordinatorEnded(now, &job, kKilled, "");
    }
  }
  for (const JobWant& want : report.wants) {
    Job* const known = jobs_.FindLive(want.job);
    if (known == nullptr || want.lost || known->record.home != report.agent) continue;
    Job& job = *known;
    if (want.events > job.want.events) {
      job.failures = job.retries = 0;
      job.trouble.clear();
    }
    const uint32_t workers = want.workers > 0 ? want.workers : job.want.workers;
    job.want = want;
    job.want.workers = workers;
  }
}

void Pool::OnEnded(Time now, Agent* agent, const AgentReport::Ended& ended) {
  Job* const known = jobs_.FindLive(ended.id.job);
  if (known == nullptr) return;
  Job& job = *known;
  const auto process = job.processes.find(ended.id.number);
  if (process == job.processes.end()) return;  // reported before
  const bool has_begun = !process->second.first || !job.record.address.empty();
  job.processes.erase(process);
  const bool told = jobs_.ending().erase(ended.id.number) > 0;
  if (ended.host_failed) LeaveOut(now, agent, ended.error);
  if (ended.id.role == ProcessRole::kCoordinator) {
    // Another host may do better, whatever its status was.
    const int32_t code = ended.host_failed ? ExitStatus::kMayHeal : ended.exit_code;
    if (job.coordinator() == nullptr) jobs_.OnCoordinatorEnded(now, &job, code, ended.error, has_begun);
    return;
  }
  if (told || ended.exit_code == 0 || job.record.state != JobState::kRunning) return;
  if (job.coordinator() == nullptr) return;  // members end without one
  // Another host may start it at once.
  if (!ended.host_failed) return jobs_.OnFailed(now, &job, NameOf(ended.id), ended.exit_code, ended.error);
  job.trouble = NameOf(ended.id) + " at agent '" + agent->last.agent + "': " + ended.error;
}

void Pool::LeaveOut(Time now, Agent* agent, const std::string& why) {
  agent->trouble = why;
  if (agent->IsOut(now)) return;  // the others of the same moment
  agent->out_until = now + PauseAfter(agent->failures++, kFirstOut, kMostOut);
}

void Pool::DropLost(Time now) {
  for (auto& [job_id, job] : jobs_.live()) {
    std::erase_if(job.processes, [&](const auto& entry) {
      const Process& process = entry.second;
      if (Live(now, process.agent) != nullptr) return false;
      jobs_.ending().erase(process.id.number);
      return true;
    });
    // A job that is to end, and whose host has gone: it has the checkpoint that it had.
    const JobState state = job.record.state;
    if (job.coordinator() != nullptr || Live(now, job.record.home) != nullptr) continue;
    if (state == JobState::kPreempting || state == JobState::kStopping)
      jobs_.OnCoordinatorEnded(now, &job, kKilled, "");
  }
}

void Pool::Settle(Time now) {
  if (jobs_.settled()) return;
  const bool all = std::ranges::all_of(jobs_.live(), [this](const auto& entry) {
    const JobRecord& record = entry.second.record;
    const bool runs = !IsOver(record.state) && record.state != JobState::kQueued;
    return !runs || record.home.empty() || agents_.contains(record.home);
  });
  if (now - start_ < config_.agent_timeout && !(all && now - start_ >= config_.settle)) return;
  jobs_.Settle();
  for (auto& [id, job] : jobs_.live()) {
    const JobState state = job.record.state;
    if (job.coordinator() != nullptr) continue;
    if (state == JobState::kPreempting || state == JobState::kStopping)
      jobs_.OnCoordinatorEnded(now, &job, kKilled, "");
  }
}

void Pool::Account(Time now) {
  const double seconds = Seconds(now - accounted_at_);
  accounted_at_ = now;
  for (auto& [id, job] : jobs_.live()) {
    double millicores = 0;
    for (const auto& [number, process] : job.processes)
      millicores += static_cast<double>(job.record.spec.resources.of(process.id.role).millicores);
    job.core_seconds += millicores / 1000 * seconds;
    if (job.record.state != JobState::kRunning || !job.grant.admitted) {
      job.owed = 0;
      continue;
    }
    const double each =
        static_cast<double>(std::max<uint64_t>(job.record.spec.resources.worker.millicores, 1));
    const double lacking = job.grant.fair_workers - job.Count(ProcessRole::kWorker);
    const double most = 4 * each / 1000 * Seconds(config_.quantum);
    job.owed = std::clamp(job.owed + lacking * each / 1000 * seconds, -most, most);
  }
}

// Ranks jobs by what they are owed, from time to time only: workers that come and go cost time.
void Pool::Rank(Time now) {
  std::vector<JobId> running;
  for (const auto& [id, job] : jobs_.live()) {
    if (job.record.state == JobState::kRunning) running.push_back(id);
  }
  if (running == ranked_jobs_ && now - ranked_at_ < config_.quantum) return;
  ranked_jobs_ = std::move(running);
  ranked_at_ = now;
  for (auto& [id, job] : jobs_.live()) job.ranked = job.owed;
}

JobDemand Pool::DemandOf(const Job& job, const std::map<std::string, uint32_t>& hosts) const {
  const JobSpec& spec = job.record.spec;
  JobDemand demand;
  demand.id = job.record.id;
  demand.priority = spec.priority;
  demand.share = spec.share;
  demand.resources = spec.resources;
  demand.classes = spec.classes;
  demand.least_servers = std::min(spec.servers, job.want.servers);
  demand.servers = job.want.servers;
  demand.least_workers = std::min(spec.least_workers, job.want.workers);
  demand.workers = job.want.workers;
  demand.leaves = job.Ends();
  demand.owed = job.ranked;
  // Only there are its checkpoints, unless they are in a bucket.
  if (!job.record.home.empty() && !job.record.saved) {
    const auto home = hosts.find(job.record.home);
    demand.lost_home = home == hosts.end();
    if (!demand.lost_home) demand.home = home->second;
  }
  for (const auto& [number, process] : job.processes) {
    const auto host = hosts.find(process.agent);
    if (host != hosts.end()) demand.processes.push_back({process.id.role, host->second, number});
  }
  return demand;
}

Resources Pool::FreeOf(const std::string& name, const Agent& agent) const {
  Resources free = agent.last.offer;
  for (const auto& [id, job] : jobs_.live()) {
    for (const auto& [number, process] : job.processes) {
      if (process.agent == name) free -= job.record.spec.resources.of(process.id.role);
    }
  }
  return free;
}

void Pool::Decide(Time now) {
  jobs_.Retire(now);
  std::erase_if(agents_, [&](const auto& agent) { return now - agent.second.heard > kForgottenAgent; });
  Settle(now);
  if (!jobs_.settled()) return;
  DropLost(now);
  Account(now);
  Rank(now);
  std::map<std::string, uint32_t> hosts;
  std::vector<std::string> names;
  Inputs inputs;
  for (const auto& [name, agent] : agents_) {
    if (Lost(now, agent)) continue;
    hosts[name] = static_cast<uint32_t>(names.size());
    names.push_back(name);
    HostOffer offer{agent.last.offer, FreeOf(name, agent), agent.last.host_class};
    inputs.whole.push_back(offer);
    if (agent.IsOut(now)) {
      offer.offer -= offer.free;
      offer.free = {};
    }
    inputs.hosts.push_back(offer);
  }
  std::vector<Job*> jobs;
  for (auto& [id, job] : jobs_.live()) {
    if (IsOver(job.record.state) || job.record.state == JobState::kStopping) {
      if (job.stopping_since && now - *job.stopping_since > config_.stop_timeout) jobs_.EndProcesses(job);
      continue;
    }
    jobs.push_back(&job);
    inputs.jobs.push_back(DemandOf(job, hosts));
  }
  if (inputs != inputs_ || grants_.size() != jobs.size()) {
    inputs_ = inputs;
    Plan(jobs);
  }
  auto& demands = inputs.jobs;
  for (size_t i = 0; i < jobs.size(); ++i) {
    Obey(now, jobs[i], grants_[i], demands[i].lost_home);
    demands[i].leaves = jobs[i]->Ends();
  }
  const std::vector<Start> starts = NextStarts(inputs.hosts, demands, grants_);
  if (starts.empty() && IsQuiet()) {
    for (Job* const job : jobs) GiveWay(now, job);
  }
  for (const Start& start : starts) {
    Job* const job = jobs[start.job];
    if (now >= job->retry_at) Launch(job, start.process.role, names[start.process.host]);
  }
  for (size_t i = 0; i < jobs.size(); ++i) ExplainWaiting(now, jobs[i], inputs.hosts, demands[i]);
}

// A job that runs, and whose minimum fits but for the hosts that are left out, goes on with what it has.
void Pool::Plan(const std::vector<Job*>& jobs) {
  grants_ = Schedule(inputs_.hosts, inputs_.jobs);
  if (inputs_.hosts == inputs_.whole) return;
  const auto lacks = [&](size_t i) {
    return jobs[i]->record.state == JobState::kRunning && !grants_[i].admitted;
  };
  std::vector<JobGrant> whole;
  for (size_t i = 0; i < jobs.size(); ++i) {
    // The room that a process lacks there is not what others need.
    for (const PlacedProcess& process : inputs_.jobs[i].processes) {
      if (inputs_.hosts[process.host] != inputs_.whole[process.host])
        std::erase(grants_[i].displaced, process.number);
    }
    if (!lacks(i)) continue;
    if (whole.empty()) whole = Schedule(inputs_.whole, inputs_.jobs);
    if (!whole[i].admitted) continue;
    grants_[i] = whole[i];
    grants_[i].displaced.clear();
  }
}

void Pool::Obey(Time now, Job* job, const JobGrant& grant, bool lost_home) {
  job->grant = grant;
  if (job->record.state == JobState::kPreempting) {
    if (now - *job->stopping_since > config_.stop_timeout) jobs_.EndProcesses(*job);
    return;
  }
  if (job->record.state != JobState::kRunning) return;
  job->granted = true;
  if (!grant.admitted && job->coordinator() != nullptr) {
    jobs_.Preempt(now, job);
  } else if (!grant.admitted && !lost_home) {
    jobs_.Queue(job);
  }
  if (job->record.state == JobState::kRunning) EndOverdue(now, job);
}

// Whether all jobs have no more than is granted, and nothing ends.
bool Pool::IsQuiet() const {
  return jobs_.ending().empty() && std::ranges::none_of(jobs_.live(), [](const auto& entry) {
           const Job& job = entry.second;
           const bool more = job.Count(ProcessRole::kServer) > job.grant.servers ||
                             job.Count(ProcessRole::kWorker) > job.grant.workers;
           return job.record.state == JobState::kStopping || job.Ends() ||
                  (job.record.state == JobState::kRunning && more);
         });
}

// Others before it need hosts that it has, and nobody else makes room there.
void Pool::GiveWay(Time now, Job* job) {
  const std::set<uint64_t> displaced(job->grant.displaced.begin(), job->grant.displaced.end());
  if (displaced.empty() || job->record.state != JobState::kRunning) return;
  bool servers_stay = true;
  uint32_t workers = 0;
  for (const auto& [number, process] : job->processes) {
    const bool stays = !displaced.contains(number);
    if (process.id.role == ProcessRole::kServer) servers_stay &= stays;
    if (process.id.role == ProcessRole::kWorker) workers += stays;
  }
  if (!servers_stay || workers < std::min(job->record.spec.least_workers, job->want.workers)) {
    jobs_.Preempt(now, job);
  } else {
    jobs_.ending().insert(displaced.begin(), displaced.end());
  }
}

// A coordinator that does not make its job smaller is not waited for for ever. What no agent has been asked
// for yet, because there is no coordinator, makes room at once.
void Pool::EndOverdue(Time now, Job* job) {
  const bool overdue = job->over_since && now - *job->over_since > config_.grace;
  bool over = false;
  for (const auto& [role, granted] : {std::pair(ProcessRole::kServer, job->grant.servers),
                                      std::pair(ProcessRole::kWorker, job->grant.workers)}) {
    if (!job->grant.admitted) break;
    const uint32_t count = job->Count(role);
    uint32_t extra = count - std::min(count, granted);
    if (!job->TakesMembers()) {
      std::erase_if(job->processes, [&](const auto& entry) {
        if (entry.second.id.role != role || entry.second.seen || extra == 0) return false;
        --extra;
        jobs_.ending().erase(entry.first);
        return true;
      });
    }
    over |= extra > 0;
    for (auto at = job->processes.rbegin(); overdue && extra > 0 && at != job->processes.rend(); ++at) {
      if (at->second.id.role != role) continue;
      --extra;
      jobs_.ending().insert(at->first);
    }
  }
  if (!over) job->over_since.reset();
  if (over && !job->over_since) job->over_since = now;
}

void Pool::Launch(Job* job, ProcessRole role, const std::string& agent) {
  std::set<uint32_t> taken;
  for (const auto& [number, process] : job->processes) {
    if (process.id.role == role) taken.insert(process.id.index);
  }
  uint32_t index = 0;
  while (taken.contains(index)) ++index;
  const uint64_t number = ++last_number_;
  JobRecord& record = job->record;
  Process process{.id = {record.id, role, number, index}, .agent = agent};
  if (role == ProcessRole::kCoordinator) {
    process.again = record.state == JobState::kRunning;
    process.first = !process.again && (record.home.empty() || record.saved);
    if (!process.again) {
      record.state = JobState::kRunning;
      job->owed = job->ranked = 0;
    }
    record.home = agent;
    jobs_.Change(*job);
  }
  job->processes[number] = process;
}

std::string Pool::LeftOut(Time now, const Agent& agent) const {
  if (!agent.IsOut(now)) return "";
  return "gets no processes for " + std::to_string(static_cast<int64_t>(Seconds(agent.out_until - now)) + 1) +
         " s: " + agent.trouble;
}

void Pool::ExplainWaiting(Time now, Job* job, const std::vector<HostOffer>& hosts, const JobDemand& demand) {
  job->waiting.clear();
  if (IsOver(job->record.state)) return;
  const std::string again = job->trouble.empty() ? "" : job->trouble + "; it is started again";
  if (job->coordinator() != nullptr && !job->Ends()) {
    const bool whole = job->Count(ProcessRole::kServer) >= job->grant.servers &&
                       job->Count(ProcessRole::kWorker) >= job->grant.workers;
    if (!job->coordinator_waits.empty()) {
      job->waiting = job->coordinator_waits;
    } else if (!whole || job->record.address.empty()) {
      job->waiting = again;
    }
    return;
  }
  const Agent* const home = job->record.saved ? nullptr : Live(now, job->record.home);
  if (demand.lost_home) {
    job->waiting = "the agent '" + job->record.home + "', whose host has its directory";
  } else if (job->Ends()) {
    job->waiting = "its processes, which end";
  } else if (home != nullptr && home->IsOut(now)) {
    job->waiting =
        "the agent '" + job->record.home + "', whose host has its directory and " + LeftOut(now, *home);
  } else if (now < job->retry_at && !again.empty()) {
    job->waiting = again;
  } else {
    const std::string lacking = Lacking(hosts, demand);
    job->waiting = !lacking.empty()      ? lacking
                   : job->grant.admitted ? "others to give back what is its own"
                                         : "jobs before it";
    for (const auto& [name, agent] : agents_) {
      if (!Lost(now, agent) && agent.IsOut(now))
        job->waiting += "; agent '" + name + "' " + LeftOut(now, agent);
    }
  }
}

AgentOrders Pool::OrdersFor(const std::string& name, const Agent& agent) const {
  AgentOrders orders;
  orders.ends = agent.orphans;
  for (const auto& ended : agent.last.ended) orders.acknowledged = std::max(orders.acknowledged, ended.event);
  for (const auto& [id, job] : jobs_.live()) {
    for (const auto& [number, process] : job.processes) {
      if (process.agent != name) continue;
      if (jobs_.ending().contains(number)) {
        orders.ends.push_back(process.id);
        continue;
      }
      const bool coordinator = process.id.role == ProcessRole::kCoordinator;
      if (!process.seen && (coordinator || job.TakesMembers())) {
        const std::string bucket = coordinator && job.record.saved ? job.record.spec.bucket : "";
        const bool resumes = coordinator && job.record.begun && !job.record.saved;
        orders.starts.push_back({process.id, job.record.address, process.again, resumes, bucket});
      }
      const JobState state = job.record.state;
      const bool ends = state == JobState::kPreempting || state == JobState::kStopping;
      // It accepts no calls, and has trained nothing that a checkpoint would keep.
      if (coordinator && process.seen && ends && !job.accepts_calls && !job.coordinator_waits.empty()) {
        orders.ends.push_back(process.id);
        continue;
      }
      if (!coordinator || !process.seen || job.record.address.empty()) continue;
      if (state == JobState::kRunning && job.granted && job.grant.admitted)
        orders.grants.push_back({id, job.grant.servers, job.grant.workers});
      if (ends) orders.stops.push_back({id, state == JobState::kStopping && job.record.discard});
    }
  }
  return orders;
}

JobStatus Pool::StatusOf(Time now, const Job& job) const {
  const RoleResources& each = job.record.spec.resources;
  JobStatus status;
  status.record = job.record;
  status.grant = job.grant;
  status.servers = job.Count(ProcessRole::kServer);
  status.workers = job.Count(ProcessRole::kWorker);
  status.core_seconds = job.core_seconds;
  status.events = job.want.events;
  status.waiting = job.waiting;
  const Process* const coordinator = job.coordinator();
  if (coordinator != nullptr && coordinator->seen) status.coordinator = job.record.address;
  for (const auto& [number, process] : job.processes) status.cores += Cores(each.of(process.id.role));
  status.core_seconds += status.cores * Seconds(now - accounted_at_);
  if (job.record.state == JobState::kRunning && job.grant.admitted) {
    status.fair_cores = Cores(each.coordinator) + job.grant.servers * Cores(each.server) +
                        job.grant.fair_workers * Cores(each.worker);
  }
  if (!jobs_.settled() && !IsOver(job.record.state))
    status.waiting = "the agents, which have not reported yet";
  return status;
}

std::vector<JobStatus> Pool::jobs(Time now) const {
  std::vector<JobStatus> all;
  for (const auto* part : {&jobs_.over(), &jobs_.live()}) {
    for (const auto& [id, job] : *part) all.push_back(StatusOf(now, job));
  }
  std::ranges::sort(all, {}, [](const JobStatus& status) { return status.record.id; });
  return all;
}

std::optional<JobStatus> Pool::job(Time now, JobId id) const {
  const Job* const job = jobs_.Find(id);
  return job == nullptr ? std::nullopt : std::optional(StatusOf(now, *job));
}

std::vector<AgentStatus> Pool::agents(Time now) const {
  std::vector<AgentStatus> all;
  for (const auto& [name, agent] : agents_) {
    if (agent.last.agent.empty()) continue;
    all.push_back({.name = name,
                   .host = agent.last.host,
                   .host_class = agent.last.host_class,
                   .offer = agent.last.offer,
                   .free = FreeOf(name, agent),
                   .processes = static_cast<uint32_t>(agent.last.running.size()),
                   .lost = Lost(now, agent),
                   .left_out = LeftOut(now, agent)});
  }
  return all;
}

}  // namespace leat::pool

// For tests: a pool with agents and jobs in virtual time. Starts, drains, checkpoints and reports take random
// times; messages are lost, agents and the pool die, as wished.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/exit_status.h"
#include "base/rng.h"
#include "protocol/pool/pool.h"

namespace leat::pool {

struct SimulatedJob {
  JobSpec spec;
  double arrives = 0;        // s
  uint64_t events = 0;       // to train
  double rate = 100;         // events/s of a worker
  uint32_t most = 1;         // workers that it may want
  double want_interval = 0;  // s between changes of the want; 0: it stays at `most`

  // ---- its state
  JobId id = 0;
  uint64_t trained = 0, saved = 0;  // saved: in a checkpoint; it is trained again when its processes die
  uint64_t lost = 0;                // trained, and not in the checkpoint that the job has gone on from
  double part = 0;                  // fraction of an event
  bool has_directory = false;       // at `home`
  bool over = false;
  uint32_t want = 1;
  double want_at = 0;
  std::optional<uint32_t> granted;
  double stop_at = -1;        // a checkpoint is being saved until then
  double used = 0, fair = 0;  // core-seconds while it runs, of itself and of the oracle
  std::string home;
  uint32_t resumes = 0;    // after it was preempted
  bool in_bucket = false;  // a checkpoint of it
  uint32_t moves = 0;      // to another host
};

class Simulation {
 public:
  struct Faults {
    double lost_report = 0;  // probability
    double agent_dies = 0;   // per second
    double pool_dies = 0;    // per second
    double worker_dies = 0;  // per second and worker
    double host_fills = 0;   // per second and host: it starts nothing for up to two minutes
    // Per second: for up to five minutes nothing is trained. Coordinators that resume wait, others and
    // workers end, as the program does.
    double brokers_leave = 0;
  };
  static constexpr double kStep = 1;       // s
  static constexpr double kPatience = 60;  // s, of a worker without brokers

  Simulation(uint64_t seed, std::vector<Resources> offers, std::vector<SimulatedJob> jobs, Faults faults)
      : rng_(seed), jobs_(std::move(jobs)), faults_(faults) {
    for (size_t i = 0; i < offers.size(); ++i) {
      agents_.push_back({.name = "agent" + std::to_string(i), .offer = offers[i]});
      agents_.back().instance = ++instances_;
    }
    for (SimulatedJob& job : jobs_) job.want = job.spec.workers;
    NewPool();
  }

  // Called after each decision.
  std::function<void(Simulation&)> check;
  std::vector<std::string> errors;
  uint64_t ended_by_signal = 0;  // processes of jobs with a coordinator, which had not been leaving

  // Runs until all jobs are over or the time is up.
  bool Run(double until) {
    while (now_ < until && errors.empty()) {
      now_ += kStep;
      Step();
      if (check) check(*this);
      if (std::ranges::all_of(jobs_, [](const SimulatedJob& job) { return job.over; })) return true;
    }
    return false;
  }

  struct Process {
    ProcessId id;
    double ready_at = 0;
    double leaves_at = -1;  // -1: it stays
    bool resumes = false;   // a coordinator, in a directory or from a bucket
    bool is_ready(double now) const { return now >= ready_at; }
  };
  struct Agent {
    std::string name;
    Resources offer;
    uint64_t instance = 0, sequence = 0, events = 0;
    double back_at = 0;     // it is away until then
    double full_until = 0;  // its host starts nothing
    std::map<uint64_t, Process> processes;
    std::vector<AgentReport::Ended> ended;
    std::set<uint64_t> started;
  };

  double now() const { return now_; }
  Pool& pool() { return *pool_; }
  std::vector<Agent>& agents() { return agents_; }
  std::vector<SimulatedJob>& jobs() { return jobs_; }
  SimulatedJob* Find(JobId id) {
    const auto at = std::ranges::find(jobs_, id, &SimulatedJob::id);
    return at == jobs_.end() ? nullptr : &*at;
  }
  uint32_t Count(JobId job, ProcessRole role, bool ready = false) const {
    uint32_t count = 0;
    for (const Agent& agent : agents_) {
      for (const auto& [number, process] : agent.processes)
        count += process.id.job == job && process.id.role == role && (!ready || process.is_ready(now_));
    }
    return count;
  }
  // Whether all of its minimum is there.
  bool IsComplete(const SimulatedJob& job) const {
    return Count(job.id, ProcessRole::kCoordinator, true) == 1 &&
           Count(job.id, ProcessRole::kServer) >= job.spec.servers &&
           Count(job.id, ProcessRole::kWorker) >= std::min(job.spec.least_workers, job.want);
  }
  Time time() const { return Time(static_cast<int64_t>(now_ * 1e9)); }

 private:
  void NewPool() {
    PoolConfig config;
    config.run = ++pools_;
    std::vector<JobRecord> records;
    for (const auto& [id, record] : records_) records.push_back(record);
    pool_ = std::make_unique<Pool>(time(), config, records);
  }
  void Save() {
    for (JobRecord& record : pool_->TakeChanged()) records_[record.id] = record;
  }

  void Step() {
    for (SimulatedJob& job : jobs_) {
      if (job.id == 0 && now_ >= job.arrives) {
        job.id = pool_->Submit(time(), job.spec);
        Save();
      }
      Live(&job);
    }
    if (rng_.Uniform() < faults_.brokers_leave * kStep) {
      away_since_ = now_;
      away_until_ = now_ + 300 * rng_.Uniform();
    }
    for (Agent& agent : agents_) Tick(&agent);
    if (rng_.Uniform() < faults_.pool_dies * kStep) NewPool();
    pool_->Decide(time());
    Save();
  }

  // The job's own life: it trains, changes its want, drains, saves and ends.
  void Live(SimulatedJob* job) {
    if (job->id == 0) return;
    const bool coordinator = Count(job->id, ProcessRole::kCoordinator, true) > 0;
    if (!coordinator) return;
    if (job->over) return Finish(job, true);  // its coordinator had died before anybody knew of the end
    if (job->want_interval > 0 && now_ >= job->want_at) {
      job->want_at = now_ + job->want_interval * (0.5 + rng_.Uniform());
      job->want = job->spec.least_workers +
                  static_cast<uint32_t>(rng_.Below(job->most - job->spec.least_workers + 1));
    }
    if (job->stop_at >= 0) {
      if (now_ >= job->stop_at) Finish(job, false);
      return;
    }
    if (!BrokersAway() && Count(job->id, ProcessRole::kServer, true) >= job->spec.servers) {
      job->part += kStep * job->rate * Count(job->id, ProcessRole::kWorker, true);
      const auto whole = static_cast<uint64_t>(job->part);
      job->part -= static_cast<double>(whole);
      job->trained = std::min(job->trained + whole, job->events);
    }
    if (job->trained == job->events) return Finish(job, true);
    if (!job->granted) return;
    std::vector<Process*> staying;
    for (Agent& agent : agents_) {
      for (auto& [number, process] : agent.processes) {
        if (process.id.job == job->id && process.id.role == ProcessRole::kWorker && process.leaves_at < 0)
          staying.push_back(&process);
      }
    }
    // The coordinator decides which ones leave.
    while (staying.size() > *job->granted) {
      const size_t at = rng_.Below(staying.size());
      staying[at]->leaves_at = now_ + 0.2 + rng_.Uniform();
      staying.erase(staying.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  void Finish(SimulatedJob* job, bool done) {
    job->saved = job->trained;
    job->in_bucket = !job->spec.bucket.empty();
    job->stop_at = -1;
    job->granted.reset();
    job->over = done;
    for (Agent& agent : agents_) {
      for (auto& [number, process] : agent.processes) {
        if (process.id.job != job->id) continue;
        process.leaves_at = process.id.role == ProcessRole::kCoordinator ? now_ : now_ + rng_.Uniform();
      }
    }
  }

  bool BrokersAway() const { return now_ < away_until_; }

  void Ended(Agent* agent, const Process& process, int exit_code, bool host_failed = false) {
    agent->ended.push_back({++agent->events, process.id, exit_code,
                            exit_code == ExitStatus::kMayHeal ? "it may heal" : "", host_failed});
  }

  // The exit status with which it ends by itself; none: it goes on.
  std::optional<int> EndOf(Process* process) {
    if (process->id.role == ProcessRole::kWorker) {
      if (rng_.Uniform() < faults_.worker_dies * kStep) return ExitStatus::kSignal + 9;
      if (BrokersAway() && now_ - away_since_ > kPatience && rng_.Chance(0.05)) return ExitStatus::kMayHeal;
    }
    if (process->id.role == ProcessRole::kCoordinator && BrokersAway() && now_ >= process->ready_at - kStep &&
        !process->is_ready(now_)) {
      if (!process->resumes) return ExitStatus::kMayHeal;
      process->ready_at = now_ + 2 * kStep;
    }
    if (process->leaves_at >= 0 && now_ >= process->leaves_at) return ExitStatus::kDone;
    return std::nullopt;
  }

  void Tick(Agent* agent) {
    if (now_ < agent->back_at) return;
    if (rng_.Uniform() < faults_.agent_dies * kStep) {
      // Its processes die with it. The job's directory stays on its host's disk.
      for (const auto& [number, process] : agent->processes) {
        SimulatedJob* const job = Find(process.id.job);
        if (process.id.role == ProcessRole::kCoordinator) {
          job->granted.reset();
          job->stop_at = -1;
        }
      }
      *agent = {.name = agent->name, .offer = agent->offer, .instance = ++instances_};
      agent->back_at = now_ + (rng_.Chance(0.5) ? 3 : 25);
      return;
    }
    if (rng_.Uniform() < faults_.host_fills * kStep) agent->full_until = now_ + 120 * rng_.Uniform();
    for (auto at = agent->processes.begin(); at != agent->processes.end();) {
      const auto exit_status = EndOf(&at->second);
      if (!exit_status) {
        ++at;
        continue;
      }
      Ended(agent, at->second, *exit_status);
      at = agent->processes.erase(at);
    }
    Report(agent);
  }

  void Report(Agent* agent) {
    AgentReport report;
    report.agent = agent->name;
    report.instance = agent->instance;
    report.sequence = ++agent->sequence;
    report.host = "host";
    report.offer = agent->offer;
    for (const auto& [number, process] : agent->processes) {
      const bool coordinator = process.id.role == ProcessRole::kCoordinator;
      const bool ready = process.is_ready(now_);
      report.running.push_back({process.id, coordinator && ready ? "host:" + std::to_string(number) : "",
                                coordinator && !ready && BrokersAway() ? "its brokers" : ""});
      if (!coordinator || !ready) continue;
      SimulatedJob* const job = Find(process.id.job);
      job->has_directory = true;
      report.wants.push_back({job->id, job->spec.servers, job->want, job->trained});
    }
    report.ended = agent->ended;
    if (rng_.Chance(faults_.lost_report)) return;
    const auto orders = pool_->OnReport(time(), report);
    Save();
    if (!orders.ok() || rng_.Chance(faults_.lost_report)) return;
    Obey(agent, *orders);
  }

  void Obey(Agent* agent, const AgentOrders& orders) {
    std::erase_if(agent->ended, [&](const auto& e) { return e.event <= orders.acknowledged; });
    for (const auto& start : orders.starts) {
      if (!agent->started.insert(start.id.number).second) continue;
      SimulatedJob* const job = Find(start.id.job);
      Process process{.id = start.id, .ready_at = now_ + 0.3 + rng_.Uniform()};
      if (now_ < agent->full_until) {
        Ended(agent, process, ExitStatus::kMayHeal, true);
        continue;
      }
      process.resumes = job->has_directory;
      if (start.id.role == ProcessRole::kCoordinator) {
        if (job->has_directory && job->home != agent->name && start.bucket.empty())
          errors.push_back("job " + std::to_string(job->id) + " is resumed where its directory is not");
        if (start.resumes && !job->has_directory)
          errors.push_back("job " + std::to_string(job->id) + " is to go on, and has not begun");
        const bool from_bucket = !start.bucket.empty();
        if (from_bucket && (start.bucket != job->spec.bucket || !job->in_bucket))
          errors.push_back("job " + std::to_string(job->id) + " is resumed from a bucket without it");
        if (from_bucket && job->home != agent->name) ++job->moves;
        job->home = agent->name;
        if (Count(job->id, ProcessRole::kCoordinator) > 0)
          errors.push_back("job " + std::to_string(job->id) + " has two coordinators");
        if (!start.again && job->has_directory) ++job->resumes;
        if (!start.again || from_bucket) {
          job->lost += job->trained - job->saved;
          job->trained = job->saved;
        }
        job->granted.reset();
        job->stop_at = -1;
      }
      agent->processes[start.id.number] = process;
    }
    for (const auto& grant : orders.grants) {
      if (SimulatedJob* const job = Find(grant.job); job->stop_at < 0) job->granted = grant.workers;
    }
    for (const auto& stop : orders.stops) {
      SimulatedJob* const job = Find(stop.job);
      if (job->stop_at < 0) job->stop_at = now_ + 0.5 + 2 * rng_.Uniform();
    }
    for (const ProcessId& id : orders.ends) {
      const auto at = agent->processes.find(id.number);
      if (at == agent->processes.end() || at->second.leaves_at >= 0) continue;
      at->second.leaves_at = now_ + rng_.Uniform();
      ended_by_signal += Count(id.job, ProcessRole::kCoordinator) > 0;
    }
  }

  Rng rng_;
  std::vector<SimulatedJob> jobs_;
  std::vector<Agent> agents_;
  Faults faults_;
  double now_ = 0, away_since_ = 0, away_until_ = 0;
  std::unique_ptr<Pool> pool_;
  std::map<JobId, JobRecord> records_;
  uint64_t pools_ = 0, instances_ = 0;
};

}  // namespace leat::pool

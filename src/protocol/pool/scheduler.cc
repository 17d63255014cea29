#include "protocol/pool/scheduler.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>

#include "base/text.h"

namespace leat::pool {
namespace {

constexpr double kRounding = 1e-6;  // workers

// Indexes by priority, then by age.
std::vector<size_t> Order(const std::vector<JobDemand>& jobs) {
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&jobs](size_t i) {
    return std::tuple(-static_cast<int64_t>(jobs[i].priority), jobs[i].id);
  });
  return order;
}

// The resources that are left of the hosts while processes are placed on them.
class Room {
 public:
  // All that the hosts offer; with `only_free`, what they have free.
  explicit Room(std::vector<HostOffer> hosts, bool only_free = false) : hosts_(std::move(hosts)) {
    for (HostOffer& host : hosts_) {
      if (only_free) host.offer = host.free;
    }
  }

  bool TakeAt(uint32_t host, const Resources& what, const std::string& host_class) {
    if (host >= hosts_.size() || !Has(host, what, host_class)) return false;
    hosts_[host].offer -= what;
    return true;
  }
  // Anywhere: on the host `near` if there is enough free, otherwise where most is free. Returns the host.
  std::optional<uint32_t> Take(const Resources& what, const std::string& host_class,
                               std::optional<uint32_t> near) {
    const auto better = [&](uint32_t a, uint32_t b) {
      const auto key = [&](uint32_t at) {
        const HostOffer& host = hosts_[at];
        const bool fits = what.Fits(host.free);
        return std::tuple(fits, fits && near == at, host.free.millicores, host.offer.millicores);
      };
      return key(a) > key(b);
    };
    std::optional<uint32_t> best;
    for (uint32_t host = 0; host < hosts_.size(); ++host) {
      if (Has(host, what, host_class) && (!best || better(host, *best))) best = host;
    }
    if (!best) return std::nullopt;
    hosts_[*best].offer -= what;
    hosts_[*best].free -= what;
    return best;
  }
  // The sum over the hosts of a class; empty: over all.
  Resources Total(const std::string& host_class) const {
    Resources total;
    for (const HostOffer& host : hosts_) {
      if (Suits(host, host_class)) total += host.offer;
    }
    return total;
  }

 private:
  static bool Suits(const HostOffer& host, const std::string& host_class) {
    return host_class.empty() || host.host_class == host_class;
  }
  bool Has(uint32_t host, const Resources& what, const std::string& host_class) const {
    return Suits(hosts_[host], host_class) && what.Fits(hosts_[host].offer);
  }

  std::vector<HostOffer> hosts_;
};

// The places of a job's processes in a plan.
class SchedulePlan {
 public:
  explicit SchedulePlan(const JobDemand& job) : job_(&job) {
    if (job.leaves) return;
    for (const PlacedProcess& process : job.processes) waiting_.push_back(process);
  }

  // Adds processes until there are `count` of the role, existing ones first. False: there is no room.
  bool Fill(Room* room, ProcessRole role, uint32_t* filled, uint32_t count) {
    for (; *filled < count; ++*filled) {
      if (!Add(room, role)) return false;
    }
    return true;
  }

  // The coordinator, and the least servers and workers.
  bool FillMinimum(Room* room) {
    uint32_t coordinators = 0;
    return Fill(room, ProcessRole::kCoordinator, &coordinators, 1) &&
           Fill(room, ProcessRole::kServer, &servers, job_->least_servers) &&
           Fill(room, ProcessRole::kWorker, &workers, job_->least_workers);
  }

  // JobGrant::displaced.
  std::vector<uint64_t> Displaced() const {
    std::vector<uint64_t> numbers;
    for (const PlacedProcess& process : waiting_) {
      const uint32_t granted = process.role == ProcessRole::kServer ? servers : workers;
      if (process.role != ProcessRole::kCoordinator && job_->Count(process.role) <= granted)
        numbers.push_back(process.number);
    }
    return numbers;
  }

  uint32_t servers = 0, workers = 0;
  double fair_workers = 0;

 private:
  bool Add(Room* room, ProcessRole role) {
    const Resources& each = job_->resources.of(role);
    const std::string& host_class = job_->classes.of(role);
    for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
      if (at->role != role || !room->TakeAt(at->host, each, "")) continue;
      if (role == ProcessRole::kCoordinator) home_ = at->host;
      waiting_.erase(at);
      return true;
    }
    if (role == ProcessRole::kCoordinator && job_->home) {
      home_ = *job_->home;
      return room->TakeAt(*job_->home, each, host_class);
    }
    const auto host = room->Take(each, host_class, home_);
    if (host && role == ProcessRole::kCoordinator) home_ = host;
    return host.has_value();
  }

  const JobDemand* job_;
  std::vector<PlacedProcess> waiting_;  // existing processes that have no place yet
  std::optional<uint32_t> home_;
};

// The jobs of one priority share what the minimums have left.
class FairShares {
 public:
  FairShares(const Resources& pool, const Room& room) : pool_(pool), room_(&room) {}

  struct Entry {
    const JobDemand* job;
    SchedulePlan* plan;
    double least = 0, most = 0;  // workers
    Resources fixed;             // the processes that are no workers
    bool rises = true;           // its fair share is not final yet
    const std::string& host_class() const { return job->classes.worker; }
  };
  void Add(const JobDemand& job, SchedulePlan* plan) {
    entries_.push_back({&job, plan, static_cast<double>(plan->workers),
                        static_cast<double>(std::max(job.workers, plan->workers)),
                        job.resources.coordinator + plan->servers * job.resources.server});
  }
  std::vector<Entry>& entries() { return entries_; }

  // Sets fair_workers of the plans: the highest level of all that fits. Where a class of hosts is full, its
  // jobs stay, and the others rise further.
  void Level() {
    rooms_.clear();
    rooms_[""] = room_->Total("");
    for (const Entry& entry : entries_) rooms_[entry.host_class()] = room_->Total(entry.host_class());
    while (std::ranges::any_of(entries_, &Entry::rises)) {
      double low = 0, high = 1e-6;
      while (high < 1e12 && Fits(high) && !Satisfied(high)) {
        low = high;
        high *= 2;
      }
      if (Fits(high)) low = high;
      for (int i = 0; i < 80 && low < high; ++i) {
        const double middle = (low + high) / 2;
        (Fits(middle) ? low : high) = middle;
      }
      Settle(low, high);
    }
  }

 private:
  // The workers with which the job's dominant part of the pool is `level` times its share.
  double WorkersAt(const Entry& entry, double level) const {
    double workers = std::numeric_limits<double>::infinity();
    const auto limit = [&](uint64_t pool, uint64_t fixed, uint64_t each) {
      if (each == 0 || pool == 0) return;
      const double part = level * entry.job->share * static_cast<double>(pool);
      workers = std::min(workers, (part - static_cast<double>(fixed)) / static_cast<double>(each));
    };
    const Resources& each = entry.job->resources.worker;
    limit(pool_.millicores, entry.fixed.millicores, each.millicores);
    limit(pool_.memory, entry.fixed.memory, each.memory);
    return std::clamp(workers, entry.least, entry.most);
  }
  double WorkersNow(const Entry& entry, double level) const {
    return entry.rises ? WorkersAt(entry, level) : entry.plan->fair_workers;
  }
  // In the hosts of a class.
  bool Fits(double level, const std::string& host_class) const {
    double millicores = 0, memory = 0;
    for (const Entry& entry : entries_) {
      if (!host_class.empty() && entry.host_class() != host_class) continue;
      const double more = WorkersNow(entry, level) - entry.least;
      millicores += more * static_cast<double>(entry.job->resources.worker.millicores);
      memory += more * static_cast<double>(entry.job->resources.worker.memory);
    }
    const Resources& room = rooms_.at(host_class);
    return millicores <= static_cast<double>(room.millicores) * (1 + 1e-12) &&
           memory <= static_cast<double>(room.memory) * (1 + 1e-12);
  }
  bool Fits(double level) const {
    return std::ranges::all_of(rooms_, [&](const auto& room) { return Fits(level, room.first); });
  }
  bool Satisfied(double level) const {
    return std::ranges::all_of(entries_, [&](const Entry& e) { return WorkersNow(e, level) >= e.most; });
  }
  // `low` fits. Jobs that have no room at `high` stay at `low`; if `high` fits, all of them stay.
  void Settle(double low, double high) {
    std::vector<Entry*> stay;
    const bool all = Fits(high) || !Fits(high, "");
    for (Entry& entry : entries_) {
      if (entry.rises && (all || !Fits(high, entry.host_class()))) stay.push_back(&entry);
    }
    for (Entry* entry : stay) entry->plan->fair_workers = WorkersAt(*entry, low);
    for (Entry* entry : stay) entry->rises = false;
  }

  const Resources pool_;
  const Room* const room_;
  std::map<std::string, Resources> rooms_;  // by class; "": of all hosts
  std::vector<Entry> entries_;
};

// Gives the jobs of one priority whole workers.
void GiveWorkers(FairShares* shares, Room* room) {
  shares->Level();
  std::vector<FairShares::Entry*> rest;
  for (auto& entry : shares->entries()) {
    SchedulePlan& plan = *entry.plan;
    const auto whole = static_cast<uint32_t>(plan.fair_workers + kRounding);
    plan.Fill(room, ProcessRole::kWorker, &plan.workers, whole);
    if (plan.workers < entry.most) rest.push_back(&entry);
  }
  // First those whose share has been rounded down, then those who can use what does not suit the others.
  std::ranges::stable_sort(rest, {}, [](const FairShares::Entry* e) {
    const bool rounded = e->plan->fair_workers - static_cast<double>(e->plan->workers) > kRounding;
    return std::tuple(!rounded, -e->job->owed, e->job->id);
  });
  for (bool more = true; more;) {
    more = false;
    for (FairShares::Entry* entry : rest) {
      SchedulePlan& plan = *entry->plan;
      if (plan.workers >= entry->most) continue;
      more |= plan.Fill(room, ProcessRole::kWorker, &plan.workers, plan.workers + 1);
    }
  }
}

Resources Least(const JobDemand& job) {
  const RoleResources& each = job.resources;
  return each.coordinator + job.least_servers * each.server + job.least_workers * each.worker;
}

}  // namespace

Resources& Resources::operator+=(const Resources& other) {
  millicores += other.millicores;
  memory += other.memory;
  return *this;
}

Resources& Resources::operator-=(const Resources& other) {
  millicores -= std::min(millicores, other.millicores);
  memory -= std::min(memory, other.memory);
  return *this;
}

Resources operator*(uint32_t count, const Resources& each) {
  return {count * each.millicores, count * each.memory};
}

uint32_t JobDemand::Count(ProcessRole role) const {
  return static_cast<uint32_t>(std::ranges::count(processes, role, &PlacedProcess::role));
}

std::vector<JobGrant> Schedule(const std::vector<HostOffer>& hosts, const std::vector<JobDemand>& jobs) {
  Room room(hosts);
  const Resources pool = room.Total("");
  const std::vector<size_t> order = Order(jobs);
  std::vector<std::optional<SchedulePlan>> plans(jobs.size());
  for (const size_t i : order) {
    if (jobs[i].lost_home) continue;
    Room with = room;
    SchedulePlan plan(jobs[i]);
    if (!plan.FillMinimum(&with)) continue;
    room = std::move(with);
    plans[i] = std::move(plan);
  }
  for (const size_t i : order) {
    if (plans[i]) plans[i]->Fill(&room, ProcessRole::kServer, &plans[i]->servers, jobs[i].servers);
  }
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    FairShares shares(pool, room);
    for (; end < order.size() && jobs[order[end]].priority == jobs[order[begin]].priority; ++end) {
      if (auto& plan = plans[order[end]]) shares.Add(jobs[order[end]], &*plan);
    }
    GiveWorkers(&shares, &room);
    begin = end;
  }
  std::vector<JobGrant> grants(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!plans[i]) continue;
    const SchedulePlan& plan = *plans[i];
    grants[i] = {true, plan.servers, plan.workers, plan.fair_workers, plan.Displaced()};
  }
  return grants;
}

std::vector<Start> NextStarts(std::vector<HostOffer> hosts, const std::vector<JobDemand>& jobs,
                              const std::vector<JobGrant>& grants) {
  std::vector<Start> starts;
  bool waits = false;  // a job before this one
  for (const size_t i : Order(jobs)) {
    const JobDemand& job = jobs[i];
    if (!grants[i].admitted) continue;
    if (job.leaves) {
      waits = true;
      continue;
    }
    Room room(hosts, true);
    std::vector<Start> started;
    std::optional<uint32_t> home = job.home;
    for (const PlacedProcess& process : job.processes) {
      if (process.role == ProcessRole::kCoordinator) home = process.host;
    }
    const auto add = [&](ProcessRole role) {
      const Resources& each = job.resources.of(role);
      std::optional<uint32_t> host = home;
      if (role != ProcessRole::kCoordinator || !home) {
        host = room.Take(each, job.classes.of(role), home);
      } else if (!room.TakeAt(*home, each, job.classes.of(role))) {
        host.reset();
      }
      if (!host) return false;
      if (role == ProcessRole::kCoordinator) home = host;
      started.push_back({i, {role, *host}});
      return true;
    };
    const auto fill = [&](ProcessRole role, uint32_t count) {
      const auto planned =
          std::ranges::count_if(started, [role](const Start& s) { return s.process.role == role; });
      for (uint32_t n = job.Count(role) + static_cast<uint32_t>(planned); n < count; ++n) {
        if (!add(role)) return false;
      }
      return true;
    };
    const bool begins = job.Count(ProcessRole::kCoordinator) == 0;
    const bool minimum = fill(ProcessRole::kCoordinator, 1) &&
                         fill(ProcessRole::kServer, std::min(job.least_servers, grants[i].servers)) &&
                         fill(ProcessRole::kWorker, std::min(job.least_workers, grants[i].workers));
    if (!minimum && begins) started.clear();
    if (minimum && !waits && !begins) {
      (void)(fill(ProcessRole::kServer, grants[i].servers) &&
             fill(ProcessRole::kWorker, grants[i].workers));  // the rest later
    }
    waits |= !minimum;
    for (const Start& start : started) hosts[start.process.host].free -= job.resources.of(start.process.role);
    starts.insert(starts.end(), started.begin(), started.end());
  }
  return starts;
}

bool FitsAlone(const std::vector<HostOffer>& hosts, const JobDemand& job) {
  JobDemand alone = job;
  alone.processes.clear();
  return Schedule(hosts, {alone}).front().admitted;
}

std::string ResourcesText(const Resources& resources) {
  return Formatted("%.6g cores and %.6g MB", static_cast<double>(resources.millicores) / 1000,
                   static_cast<double>(resources.memory) / 1e6);
}

std::string Lacking(const std::vector<HostOffer>& hosts, const JobDemand& job) {
  if (hosts.empty()) return "agents: the pool has none";
  for (const ProcessRole role : {ProcessRole::kCoordinator, ProcessRole::kServer, ProcessRole::kWorker}) {
    const std::string& wanted = job.classes.of(role);
    if (wanted.empty() ||
        std::ranges::any_of(hosts, [&](const HostOffer& h) { return h.host_class == wanted; }))
      continue;
    std::set<std::string> offered;
    for (const HostOffer& host : hosts) offered.insert(host.host_class.empty() ? "none" : host.host_class);
    return "hosts of class '" + wanted + "' for its " + std::string(fields::NameOf(role)) +
           "; the classes of the pool's hosts: " + Joined(offered);
  }
  if (FitsAlone(hosts, job)) return "";
  Resources all;
  for (const HostOffer& host : hosts) all += host.offer;
  return "hosts with room for its minimum of " + ResourcesText(Least(job)) + "; the pool has " +
         ResourcesText(all) + " on " + Plural(hosts.size(), "host");
}

}  // namespace leat::pool

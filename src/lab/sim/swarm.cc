#include "lab/sim/swarm.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/rng.h"
#include "base/text.h"
#include "lab/sim/counting.h"

namespace leat::sim {

using namespace protocol;

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = StrategyKind;
using What = PlannedFault::What;

template <class T>
T OneOf(Rng& rng, std::initializer_list<T> values) {
  return values.begin()[rng.Below(values.size())];
}

uint32_t From(Rng& rng, uint32_t least, uint32_t most) {
  return least + static_cast<uint32_t>(rng.Below(most - least + 1));
}

Time At(Rng& rng, double least_s, double most_s) {
  return FromSeconds(least_s + (most_s - least_s) * rng.Uniform());
}

void DrawBatches(Rng& rng, CutRules* cuts) {
  cuts->hash += 1;
  cuts->batch_size = From(rng, 4, 23);
}

}  // namespace

ClusterOptions SwarmOptions(const SwarmJob& job) {
  ClusterOptions options;
  options.seed = job.seed;
  options.servers = job.strategy.on_servers() ? job.servers : 0;
  options.workers = job.workers;
  options.table = CountingTable(job.slices, job.moments);
  options.optimizer.kind = optim::Kind::kSgd;
  options.optimizer.learning_rate = 1;
  options.strategy = job.strategy;
  options.strategy.sum = true;  // steps count events instead of averaging them

  Rng rng(Mix(job.seed, 1));
  options.placement = static_cast<Placement::Kind>(rng.Below(3));
  DrawBatches(rng, &options.cuts);
  options.cuts.split_batches = From(rng, 1, 6);
  options.cuts.shuffle_seed = rng.Below(3);
  options.cuts.run = job.strategy.run();
  options.cuts.epochs = From(rng, 1, 2);
  for (uint32_t p = 0; p < job.partitions; ++p) {
    options.stream.partitions.push_back({rng.Below(3) * 1000, job.events / 2 + rng.Below(job.events + 1)});
  }
  options.stream.takes = seconds(5);
  if (job.late_labels) {
    options.cuts.epochs = 1;
    options.stream.late_labels = FromSeconds(0.05 + 1.5 * Rng(Mix(job.seed, 6)).Uniform());
  }

  // 0.1 to 2 ms per message; about 0.5 to 8 ms per batch.
  options.server_link.latency = options.worker_link.latency = std::chrono::microseconds(100);
  options.jitter = 19;
  options.compute = {Distribution::Kind::kLognormal, 0.003, 0.5};
  options.prepare = {Distribution::Kind::kExponential, 0.008, 0};
  options.heartbeat_timeout = milliseconds(1000);
  options.reply_timeout = milliseconds(700);
  options.unreachable_after = milliseconds(300);
  options.parked_timeout = milliseconds(400);
  options.checkpoint_interval = FromSeconds(0.2 + 1.8 * rng.Uniform());
  options.checkpoint_timeout = seconds(4);
  options.server_wait = milliseconds(800);
  options.standby_wait = milliseconds(1500);
  if (Rng standbys(Mix(job.seed, 7)); job.standby && standbys.Chance(0.5))
    options.standby = From(standbys, 1, 2);
  options.tail_wait = milliseconds(60);
  options.keep_checkpoints = From(rng, 1, 2);
  options.time_limit = seconds(120);
  options.check = true;
  options.progress_within = seconds(20);

  const auto some = [&rng](std::initializer_list<double> values) { return OneOf(rng, values); };
  Faults& faults = options.faults;
  faults.lost = some({0, 0.01, 0.05});
  faults.duplicated = some({0, 0.02, 0.2});
  faults.slow = some({0, 0.02, 0.1});
  faults.split_unreadable = some({0, 0.02, 0.1});
  faults.crash_between_actions = some({0, 0.0005, 0.005});
  faults.server_deaths = some({0, 0.2, 0.6});
  faults.cut_pairs = some({0, 0.1, 0.3});
  faults.full_disk = 0.05;
  faults.unreadable = 0.01;
  faults.slow_disk = FromSeconds(some({0.01, 0.1, 0.5}));
  faults.fault_interval = FromSeconds(some({0.1, 0.3, 1}));
  faults.until = seconds(10);
  // All reduction paths, with buckets of one variable and of all, and pieces of a few elements.
  Rng sizes(Mix(job.seed, 3));
  const auto size = [&sizes](uint64_t a, uint64_t b) { return sizes.Chance(0.5) ? a : b; };
  options.reduce = {.bucket_bytes = size(1, 1 << 20),
                    .exchange_bytes = size(0, 1 << 16),
                    .piece_bytes = size(64, 256),
                    .eager_bytes = size(64, 1 << 20),
                    .one_shot = job.one_shot};
  // In half of the jobs leases are overdue soon, so that many splits are trained twice at the same time. A
  // member of a group would leave for it, so its limit is longer than any pause.
  Rng limits(Mix(job.seed, 4));
  if (!job.fault_free && limits.Chance(0.5)) {
    options.leases.shortest =
        job.strategy.on_servers() ? FromSeconds(0.02 + 0.3 * limits.Uniform()) : seconds(3);
    options.leases.first = 4 * options.leases.shortest;
  }
  // With backup workers, timing decides which lanes of a round count, and so at which rate.
  Rng alarms(Mix(job.seed, 5));
  if (job.strategy.backup == 0 && !job.strategy.deterministic && alarms.Chance(0.5)) {
    options.alarm_interval = FromSeconds(0.2 + 2 * alarms.Uniform());
    options.raise =
        RateRaise{.factor = static_cast<float>(2 + alarms.Below(3)), .events = 50 + alarms.Below(1000)};
  }
  // A damaged checkpoint needs another one before it.
  if (options.keep_checkpoints > 1 && Rng(Mix(job.seed, 7)).Chance(0.8)) faults.damaged = 0.5;
  // Servers that join get slices in three of four jobs; in the others they are spares.
  if (job.seed % 4 != 0) options.max_servers = job.servers + 3;
  faults.deaths_in_moves = Rng(Mix(job.seed, 8)).Chance(0.5) ? 0 : 0.1;
  // In a third of the jobs a server's report takes several heartbeats.
  if (job.seed % 3 == 0) options.max_report_bytes = 400;
  if (job.fault_free) {
    faults = {};
    faults.slow_disk = milliseconds(100);
  }
  if (!job.strategy.on_servers()) return options;
  options.replicas = job.replicas;
  options.forward_timeout = milliseconds(600);
  if (!job.fault_free && Rng(Mix(job.seed, 9)).Chance(0.5)) faults.deaths_in_forwards = 0.0005;
  return options;
}

ClusterResult RunCounting(const ClusterOptions& options, Hooks hooks) {
  CountingWorkload workload(options.table, options.strategy);
  Cluster cluster(options, workload, std::move(hooks));
  ClusterResult result = cluster.Run();
  if (!result.violation) result.violation = CheckCounts(cluster, options, workload);
  // A job may stop because of an error that workers have seen.
  const bool stopped = result.violation && (result.violation->invariant == Invariant::kJobProgress ||
                                            result.violation->invariant == Invariant::kJobDeadline);
  if (stopped && !workload.error().empty()) {
    result.violation->invariant = Invariant::kPushValues;
    result.violation->what = workload.error() + "; then " + result.violation->what;
  }
  if (result.violation) result.error = result.violation->ToString();
  return result;
}

ClusterResult RunSwarm(const SwarmJob& job, ClusterOptions options, Hooks hooks) {
  // A stopped job is resumed with another number of servers and another batch size.
  Rng rng(Mix(job.seed, 2));
  const bool on_servers = job.strategy.on_servers();
  options.resume = [&rng, on_servers, most = job.servers + 1](uint32_t* servers, CutRules* cuts) {
    if (on_servers) *servers = From(rng, 1, most);
    DrawBatches(rng, cuts);
    return true;
  };
  return RunCounting(options, std::move(hooks));
}

// ---- random jobs

namespace {

void DrawStrategy(Rng& rng, SwarmJob* job) {
  StrategyConfig& s = job->strategy;
  s.kind = OneOf(rng, {Kind::kAsync, Kind::kAsync, Kind::kDownpour, Kind::kSync, Kind::kSync, Kind::kSsp,
                       Kind::kAveraging, Kind::kAllReduce});
  if (s.kind == Kind::kDownpour) {
    s.n_push = From(rng, 1, 4);
    s.n_fetch = From(rng, 1, 3);
  }
  if (s.kind == Kind::kSsp) s.staleness = static_cast<int32_t>(rng.Below(5)) - 1;  // -1: not stepped
  if (s.kind == Kind::kAveraging) s.period = From(rng, 1, 4);
  if (s.kind == Kind::kAllReduce) {
    s.deterministic = rng.Chance(0.3);
    job->one_shot = rng.Chance(0.4);
  }
  if (s.kind == Kind::kAsync || s.kind == Kind::kDownpour) return;
  s.lanes = From(rng, 1, 6);
  if (s.kind == Kind::kSync && rng.Chance(0.3)) s.backup = From(rng, 1, 2);
  s.auto_lanes = s.stepped() && !s.deterministic && rng.Chance(0.3);
}

// In half of the jobs eight or more slices on three servers.
void DrawMembers(Rng& rng, SwarmJob* job) {
  job->servers = rng.Chance(0.5) ? 3 : From(rng, 1, 5);
  job->workers = From(rng, 1, 5);
  job->slices = From(rng, 8, 24);
}

// In two of five of the jobs in which it can be.
void DrawReplicas(Rng& rng, SwarmJob* job) {
  const bool possible = job->strategy.on_servers() && job->servers > 1;
  if (possible && rng.Chance(0.4)) job->replicas = 2;
}

void DrawStream(Rng& rng, SwarmJob* job) {
  job->partitions = From(rng, 1, 4);
  job->events = From(rng, 200, 3000) / job->partitions;
  job->late_labels = rng.Chance(0.15);
  job->moments = rng.Chance(0.15);
}

// ---- faults, and what belongs to them

void DrawPauses(Rng& rng, const SwarmJob&, ClusterOptions* options) {
  options->faults.longest_pause = seconds(OneOf(rng, {0, 0, 3, 10, 60}));
}

void DrawPartitions(Rng& rng, const SwarmJob&, ClusterOptions* options) {
  options->faults.isolations = OneOf(rng, {0.0, 0.0, 0.1, 0.3});
  options->faults.longest_cut = seconds(OneOf(rng, {1, 5, 20}));
}

void DrawSlowHosts(Rng& rng, const SwarmJob&, ClusterOptions* options) {
  options->faults.slow_links = OneOf(rng, {0.0, 0.0, 0.2, 0.5});
  // Many workers at one slow server wait for each other, and would all repeat their pushes for ever.
  if (options->faults.slow_links > 0) {
    options->reply_timeout = seconds(5);
    options->window = 256;  // these messages are small
  }
  if (rng.Chance(0.2)) options->slowness = {1.0 + 9 * rng.Uniform()};
  if (!rng.Chance(0.2)) return;
  options->faults.slow_disk = FromSeconds(1.5);
  options->checkpoint_timeout = seconds(15);
}

void DrawDeathsAtPoints(Rng& rng, const SwarmJob&, ClusterOptions* options) {
  options->faults.deaths_in_pushes = OneOf(rng, {0.0, 0.001, 0.005});
  options->faults.deaths_in_checkpoints = OneOf(rng, {0.0, 0.05, 0.15});
}

// Restarts processes one after the other, each replaced, and the coordinator last.
void PlanRollingRestart(Rng& rng, const SwarmJob& job, ClusterOptions* options) {
  const Duration gap = At(rng, 0.2, 1);
  Time at = At(rng, 0.8, 2);
  for (const auto& [role, count] :
       {std::pair(Role::kServer, options->servers), {Role::kWorker, job.workers}}) {
    for (uint32_t i = 0; i < count; ++i, at += gap) {
      options->plan.push_back({.what = What::kStart, .at = at, .role = role});
      options->plan.push_back(
          {.what = rng.Chance(0.5) ? What::kLeave : What::kDrain, .at = at, .role = role});
    }
  }
  options->plan.push_back({.what = What::kKill,
                           .at = at,
                           .role = Role::kCoordinator,
                           .index = From(rng, 0, 1),
                           .lasts = At(rng, 0.01, 0.5)});
}

// In any order.
void PlanJoinsAndLeaves(Rng& rng, const SwarmJob& job, ClusterOptions* options) {
  for (uint32_t n = From(rng, 3, 10); n > 0; --n) {
    PlannedFault planned{.what = OneOf(rng, {What::kStart, What::kStart, What::kLeave, What::kDrain}),
                         .at = At(rng, 0.5, 6)};
    if (job.strategy.on_servers() && rng.Chance(0.5)) planned.role = Role::kServer;
    planned.index = From(rng, 0, 3);
    planned.standby = planned.role == Role::kWorker && rng.Chance(0.2);
    options->plan.push_back(planned);
  }
}

void DrawMembership(Rng& rng, const SwarmJob& job, ClusterOptions* options) {
  const double what = rng.Uniform();
  if (what < 0.3) PlanRollingRestart(rng, job, options);
  if (what > 0.6) PlanJoinsAndLeaves(rng, job, options);
}

// Killed again and again, or stopped and overtaken.
void DrawCoordinators(Rng& rng, const SwarmJob&, ClusterOptions* options) {
  if (!rng.Chance(0.6)) return;
  for (uint32_t n = From(rng, 1, 5); n > 0; --n) {
    const Time at = At(rng, 0.5, 7);
    const uint32_t address = From(rng, 0, 1);
    if (rng.Chance(0.5)) {
      options->plan.push_back({.what = What::kKill,
                               .at = at,
                               .role = Role::kCoordinator,
                               .index = address,
                               .lasts = At(rng, 0.01, 2)});
      continue;
    }
    options->plan.push_back(
        {.what = What::kPause, .at = at, .role = Role::kCoordinator, .lasts = At(rng, 0.1, 8)});
    options->plan.push_back(
        {.what = What::kStart, .at = at + At(rng, 0, 1), .role = Role::kCoordinator, .index = address});
  }
}

// ---- all of them: a new property of jobs, or a new kind of fault, is a row here

constexpr std::pair<std::string_view, void (*)(Rng&, SwarmJob*)> kJobRows[] = {
    {"strategy", DrawStrategy},
    {"members", DrawMembers},
    {"replicas", DrawReplicas},
    {"stream", DrawStream},
};

constexpr std::pair<std::string_view, void (*)(Rng&, const SwarmJob&, ClusterOptions*)> kFaultRows[] = {
    {"pauses", DrawPauses},         {"partitions", DrawPartitions},
    {"slow hosts", DrawSlowHosts},  {"deaths at points", DrawDeathsAtPoints},
    {"membership", DrawMembership}, {"coordinators", DrawCoordinators},
};

std::string DescribeStrategy(const StrategyConfig& s) {
  std::string text(protocol::Name(s.kind));
  if (s.kind == Kind::kSsp) text += " of staleness " + std::to_string(s.staleness);
  if (s.run() > 1) text += " with runs of " + std::to_string(s.run());
  if (!s.stepped()) return text;
  text += " with " + Plural(s.lanes, s.auto_lanes ? "automatic lane" : "lane");
  if (s.backup > 0) text += " and " + std::to_string(s.backup) + " of backup";
  if (s.deterministic) text += ", deterministic";
  return text;
}

}  // namespace

FaultJob DrawFaultJob(uint64_t seed) {
  FaultJob drawn;
  drawn.job.seed = seed;
  const auto rng_of = [seed](std::string_view name) { return Rng(Mix(seed, HashName(name))); };
  for (const auto& [name, draw] : kJobRows) {
    Rng rng = rng_of(name);
    draw(rng, &drawn.job);
  }
  drawn.options = SwarmOptions(drawn.job);
  for (const auto& [name, draw] : kFaultRows) {
    Rng rng = rng_of(name);
    draw(rng, drawn.job, &drawn.options);
  }
  // Nothing may move while a process that is needed is stopped or cut off.
  const Faults& faults = drawn.options.faults;
  const Duration longest = std::max(faults.longest_pause, faults.longest_cut);
  drawn.options.progress_within += longest;
  drawn.options.time_limit = seconds(300) + 3 * longest;
  return drawn;
}

std::string FaultJob::Describe() const {
  std::string text = DescribeStrategy(job.strategy);
  if (options.servers > 0) text += ", " + Plural(options.servers, "server");
  text += ", " + Plural(options.workers, "worker");
  if (options.standby > 0) text += ", " + std::to_string(options.standby) + " on standby";
  uint64_t events = 0;
  for (const auto& partition : options.stream.partitions) events += partition.events;
  text += ", " + Plural(options.table.slices.size(), "slice") + ", " + Plural(events, "event") + " in " +
          Plural(options.stream.partitions.size(), "partition") + ", " +
          (options.cuts.epochs == 1 ? "1 pass" : std::to_string(options.cuts.epochs) + " passes") +
          ", batches of " + std::to_string(options.cuts.batch_size);
  if (job.replicas > 1) text += ", each slice on " + Plural(job.replicas, "server");
  if (job.late_labels) text += ", late labels";
  if (job.moments) text += ", a running scale";
  return text;
}

ClusterResult RunFaultJob(uint64_t seed, Hooks hooks) {
  FaultJob drawn = DrawFaultJob(seed);
  return RunSwarm(drawn.job, std::move(drawn.options), std::move(hooks));
}

uint64_t DigestOf(const ClusterResult& r) {
  uint64_t digest = HashName(r.error);
  for (const uint64_t count : {static_cast<uint64_t>(r.took.count()),
                               r.messages,
                               r.deaths,
                               r.pauses,
                               r.restarts,
                               r.overtaken,
                               r.replaced,
                               r.resumes,
                               r.raises,
                               r.marks,
                               r.lane_changes,
                               r.rounds_remade,
                               r.drained,
                               r.checkpoints,
                               r.overdue_leases,
                               r.cuts,
                               r.isolations,
                               r.unreachable,
                               r.duplicates,
                               r.late,
                               r.regranted_leases,
                               r.groups,
                               r.state_broadcasts,
                               r.loads,
                               r.moves,
                               r.moved_bytes,
                               r.forwards,
                               r.promotions}) {
    digest = Mix(digest, count);
  }
  return digest;
}

}  // namespace leat::sim

#include "lab/sim/fault_job.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/rng.h"
#include "base/text.h"

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

// ---- the job

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

struct JobRow {
  std::string_view name;
  void (*draw)(Rng&, SwarmJob*);
};
constexpr JobRow kJobRows[] = {
    {"strategy", DrawStrategy},
    {"members", DrawMembers},
    {"replicas", DrawReplicas},
    {"stream", DrawStream},
};

struct FaultRow {
  std::string_view name;
  void (*draw)(Rng&, const SwarmJob&, ClusterOptions*);
};
constexpr FaultRow kFaultRows[] = {
    {"pauses", DrawPauses},         {"partitions", DrawPartitions},
    {"slow hosts", DrawSlowHosts},  {"deaths at points", DrawDeathsAtPoints},
    {"membership", DrawMembership}, {"coordinators", DrawCoordinators},
};

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
  for (const JobRow& row : kJobRows) {
    Rng rng = rng_of(row.name);
    row.draw(rng, &drawn.job);
  }
  drawn.options = SwarmOptions(drawn.job);
  for (const FaultRow& row : kFaultRows) {
    Rng rng = rng_of(row.name);
    row.draw(rng, drawn.job, &drawn.options);
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

FaultOutcome RunFaultJob(uint64_t seed, Hooks hooks) {
  FaultJob drawn = DrawFaultJob(seed);
  FaultOutcome outcome;
  outcome.result = RunSwarm(drawn.job, std::move(drawn.options), std::move(hooks));
  outcome.error = outcome.result.error;
  if (const auto& violation = outcome.result.violation) {
    outcome.lost = violation->lost;
    outcome.twice = violation->twice;
  }
  outcome.digest = DigestOf(outcome.result);
  return outcome;
}

}  // namespace leat::sim

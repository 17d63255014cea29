#include "lab/soak/soak.h"

#include <algorithm>

#include "base/rng.h"
#include "base/text.h"

namespace leat::soak {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <class T>
const T& OneOf(Rng& rng, const std::vector<T>& values) {
  return values[rng.Below(values.size())];
}

Duration Between(Rng& rng, double least_s, double most_s) {
  return FromSeconds(least_s + (most_s - least_s) * rng.Uniform());
}

// A kind of fault, of whom, how often relative to the others, the seconds that it lasts (or from one process
// to the next; 0: see DrawFault), and whether it needs emulated hosts. A new one is a row here, and a case of
// Round::Inflict.
struct FaultRow {
  FaultKind kind;
  Part part;
  double weight;
  double least_s = 0, most_s = 0;
  bool needs_hosts = false;
};
constexpr FaultRow kFaults[] = {
    {FaultKind::kKill, Part::kWorker, 3, 0, 3},
    {FaultKind::kKill, Part::kServer, 3, 0, 3},
    {FaultKind::kKill, Part::kCoordinator, 3, 0, 3},
    {FaultKind::kStop, Part::kWorker, 2},
    {FaultKind::kStop, Part::kServer, 2},
    {FaultKind::kStop, Part::kCoordinator, 1},
    {FaultKind::kTakeOver, Part::kCoordinator, 1.5},
    {FaultKind::kCut, Part::kWorker, 1.5, 0.5, 15, true},
    {FaultKind::kCut, Part::kServer, 1.5, 0.5, 15, true},
    {FaultKind::kCut, Part::kCoordinator, 1, 0.5, 15, true},
    {FaultKind::kFullDisk, Part::kCoordinator, 1, 1, 8, true},
    {FaultKind::kReplace, Part::kWorker, 1.5, 0.2, 1.5},
    {FaultKind::kReplace, Part::kServer, 1.5, 0.2, 1.5},
    {FaultKind::kJoin, Part::kWorker, 1},
    {FaultKind::kJoin, Part::kServer, 1},
    {FaultKind::kRolling, Part::kAll, 1.5, 0.2, 1.5},
    {FaultKind::kDie, Part::kWorker, 1},
    {FaultKind::kDie, Part::kServer, 3},
    {FaultKind::kDie, Part::kCoordinator, 2},
};

const FaultRow& DrawRow(Rng& rng, bool hosts) {
  double sum = 0;
  for (const FaultRow& row : kFaults) sum += row.needs_hosts && !hosts ? 0 : row.weight;
  double at = sum * rng.Uniform();
  const FaultRow* last = &kFaults[0];
  for (const FaultRow& row : kFaults) {
    if (row.needs_hosts && !hosts) continue;
    last = &row;
    if ((at -= row.weight) < 0) break;
  }
  return *last;
}

// Draws the length of a stop: a minute in one of eight draws.
Duration DrawStop(Rng& rng) {
  if (rng.Below(8) == 0) return seconds(60);
  return OneOf(rng, std::vector<Duration>{seconds(1), seconds(3), seconds(10)});
}

void DrawPoint(Rng& rng, RoundFault* fault) {
  switch (fault->part) {
    case Part::kWorker:
      fault->point = "push";
      break;
    case Part::kServer:
      fault->point = OneOf(
          rng, std::vector<std::string>{"apply", "shard", "move_ordered", "move_frozen", "move_arrived"});
      break;
    default:
      fault->point = OneOf(rng, std::vector<std::string>{"manifest", "move_made", "move_journaled"});
  }
  fault->after =
      1 + static_cast<uint32_t>(rng.Below(fault->point == "push" || fault->point == "apply" ? 100 : 2));
  fault->lasts = Between(rng, 0.1, 2);
}

RoundFault DrawFault(Rng& rng, const RoundPlan& plan, bool hosts) {
  const FaultRow& row = DrawRow(rng, hosts);
  RoundFault fault{.kind = row.kind, .part = row.part, .moment = 500 + rng.Below(9500)};
  fault.index = static_cast<uint32_t>(rng.Below(row.part == Part::kWorker ? plan.workers : plan.servers));
  if (row.part == Part::kCoordinator || row.part == Part::kAll) fault.index = 0;
  if (row.most_s > 0) fault.lasts = Between(rng, row.least_s, row.most_s);
  if (row.kind == FaultKind::kKill) fault.elsewhere = row.part == Part::kCoordinator && rng.Chance(0.5);
  if (row.kind == FaultKind::kStop || row.kind == FaultKind::kTakeOver) fault.lasts = DrawStop(rng);
  // Roles give up after a minute without a coordinator.
  if (row.kind == FaultKind::kStop && row.part == Part::kCoordinator)
    fault.lasts = std::min<Duration>(fault.lasts, seconds(10));
  if (row.kind == FaultKind::kDie) DrawPoint(rng, &fault);
  return fault;
}

std::string SecondsText(Duration d) {
  return Formatted("%.3g s", Seconds(d));
}

}  // namespace

std::string RoundFault::Describe() const {
  std::string who(fields::NameOf(part));
  if (part == Part::kWorker || part == Part::kServer) who += " " + std::to_string(index);
  if (kind == FaultKind::kDie) return "a process dies at '" + point + "' (" + std::to_string(after) + ")";
  const std::string at = " at " + std::to_string(moment) + " events";
  switch (kind) {
    case FaultKind::kKill:
      return who + " killed" + at + ", started again after " + SecondsText(lasts) +
             (elsewhere ? " at another address" : "");
    case FaultKind::kStop:
      return who + " stopped for " + SecondsText(lasts) + at;
    case FaultKind::kCut:
      return who + " cut off for " + SecondsText(lasts) + at;
    case FaultKind::kFullDisk:
      return who + "'s disk full for " + SecondsText(lasts) + at;
    case FaultKind::kReplace:
      return who + " leaves" + at + ", and another one joins";
    case FaultKind::kJoin:
      return "another " + std::string(fields::NameOf(part)) + " joins" + at;
    case FaultKind::kTakeOver:
      return who + " stopped for " + SecondsText(lasts) + at + ", another one takes over";
    case FaultKind::kRolling:
      return "rolling restart" + at;
    case FaultKind::kDie:
      break;
  }
  return who;
}

bool RoundPlan::Has(FaultKind kind) const {
  return std::ranges::find(faults, kind, &RoundFault::kind) != faults.end();
}

std::string RoundPlan::Describe() const {
  std::string text =
      strategy + ", " + std::to_string(servers) + " servers, " + std::to_string(workers) + " workers";
  for (const RoundFault& fault : faults) text += "; " + fault.Describe();
  return text;
}

std::string RoundPlan::JobText() const {
  std::string job = Formatted(R"(name: soak
seed: %llu
stream: {topic: events, partitions: 4, bots: {events: %llu, customers: 200, rate: %llu}}
schema:
  format: json
  fields: {amount: {type: number}, fraud: {type: number, role: label}}
model:
  layers:
    - bias: {units: 4096}
  loss: {type: negative_sum, reduction: sum}
optimizer: {type: sgd, learning_rate: 1}
strategy: %s
train: {batch_size: %u, split_batches: %u}
cluster: {workers: %u, ps: %u, placement: partitioned}
checkpoint: {interval_s: 1}
)",
                              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(events),
                              static_cast<unsigned long long>(kRate), strategy.c_str(), batch_size,
                              split_batches, workers, servers);
  const auto die = std::ranges::find(faults, FaultKind::kDie, &RoundFault::kind);
  if (die != faults.end())
    job += "debug: {die_at: " + die->point + ", die_after: " + std::to_string(die->after) + "}\n";
  return job;
}

const std::vector<std::string>& RoundStrategies() {
  static const std::vector<std::string> all = {
      "async",
      "sync",
      "{type: ssp, staleness: 2}",
      "{type: sync, backup: 1}",
      "{type: downpour, n_push: 2, n_fetch: 2}",
      "{type: averaging, period: 2}",
      "{type: sync, lanes: auto}",
  };
  return all;
}

RoundPlan DrawRound(uint64_t seed, bool hosts) {
  RoundPlan plan;
  plan.seed = seed;
  plan.strategy = RoundStrategies()[seed % RoundStrategies().size()];
  Rng rng(Mix(seed, HashName("soak")));
  plan.workers = 2 + static_cast<uint32_t>(rng.Below(2));
  plan.batch_size = 20 + static_cast<uint32_t>(rng.Below(60));
  plan.split_batches = 2 + static_cast<uint32_t>(rng.Below(6));
  plan.hidden = hosts && rng.Chance(0.5);
  const uint32_t count = rng.Chance(0.4) ? 2 : 1;
  while (plan.faults.size() < count) {
    RoundFault fault = DrawFault(rng, plan, hosts);
    // A job has one process die at a point, and a second stop of a minute would take too long.
    if (fault.kind == FaultKind::kDie && plan.Has(FaultKind::kDie)) continue;
    if (fault.lasts >= seconds(60) && !plan.faults.empty()) fault.lasts = seconds(10);
    plan.faults.push_back(fault);
    // Slices move when a server joins.
    if (fault.kind == FaultKind::kDie && fault.point.starts_with("move"))
      plan.faults.push_back({.kind = FaultKind::kJoin, .part = Part::kServer, .moment = 1000});
  }
  // The process that dies leaves a mark in the job's directory, so that no other one does.
  if (plan.Has(FaultKind::kDie)) plan.hidden = false;
  std::ranges::stable_sort(plan.faults, {}, &RoundFault::moment);
  for (const RoundFault& fault : plan.faults) {
    // In a rolling restart `lasts` is the time from one process to the next.
    const double steps = fault.kind == FaultKind::kRolling ? plan.servers + plan.workers + 1 : 1;
    const auto over = static_cast<uint64_t>(kRate * (steps * Seconds(fault.lasts) + 1));
    plan.events = std::max(plan.events, fault.moment + over);
  }
  plan.events += 4000 + 1000 * rng.Below(4);
  return plan;
}

}  // namespace leat::soak

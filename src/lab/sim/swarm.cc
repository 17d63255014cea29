#include "lab/sim/swarm.h"

#include <initializer_list>
#include <utility>

#include "base/rng.h"
#include "lab/sim/counting.h"

namespace leat::sim {

using namespace protocol;

namespace {

void DrawBatches(Rng& rng, CutRules* cuts) {
  cuts->hash += 1;
  cuts->batch_size = 4 + static_cast<uint32_t>(rng.Below(20));
}

ClusterResult RunAndCheck(const ClusterOptions& options, CountingWorkload& workload, Hooks hooks = {}) {
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
  options.cuts.split_batches = 1 + static_cast<uint32_t>(rng.Below(6));
  options.cuts.shuffle_seed = rng.Below(3);
  options.cuts.run = job.strategy.run();
  options.cuts.epochs = 1 + static_cast<uint32_t>(rng.Below(2));
  for (uint32_t p = 0; p < job.partitions; ++p) {
    options.stream.partitions.push_back({rng.Below(3) * 1000, job.events / 2 + rng.Below(job.events + 1)});
  }
  options.stream.takes = std::chrono::seconds(5);
  if (job.late_labels) {
    options.cuts.epochs = 1;
    options.stream.late_labels = FromSeconds(0.05 + 1.5 * Rng(Mix(job.seed, 6)).Uniform());
  }

  // 0.1 to 2 ms per message; about 0.5 to 8 ms per batch.
  options.server_link.latency = options.worker_link.latency = std::chrono::microseconds(100);
  options.jitter = 19;
  options.compute = {Distribution::Kind::kLognormal, 0.003, 0.5};
  options.prepare = {Distribution::Kind::kExponential, 0.008, 0};
  options.heartbeat_timeout = std::chrono::milliseconds(1000);
  options.reply_timeout = std::chrono::milliseconds(700);
  options.unreachable_after = std::chrono::milliseconds(300);
  options.parked_timeout = std::chrono::milliseconds(400);
  options.checkpoint_interval = FromSeconds(0.2 + 1.8 * rng.Uniform());
  options.checkpoint_timeout = std::chrono::seconds(4);
  options.server_wait = std::chrono::milliseconds(800);
  options.standby_wait = std::chrono::milliseconds(1500);
  if (Rng standbys(Mix(job.seed, 7)); job.standby && standbys.Chance(0.5))
    options.standby = 1 + static_cast<uint32_t>(standbys.Below(2));
  options.tail_wait = std::chrono::milliseconds(60);
  options.keep_checkpoints = 1 + static_cast<uint32_t>(rng.Below(2));
  options.time_limit = std::chrono::seconds(120);
  options.check = true;
  options.progress_within = std::chrono::seconds(20);

  const auto some = [&rng](std::initializer_list<double> values) {
    return values.begin()[rng.Below(values.size())];
  };
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
  faults.until = std::chrono::seconds(10);
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
        job.strategy.on_servers() ? FromSeconds(0.02 + 0.3 * limits.Uniform()) : std::chrono::seconds(3);
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
    faults.slow_disk = std::chrono::milliseconds(100);
  }
  if (job.elastic) {
    using What = PlannedFault::What;
    options.max_servers = job.servers + 3;
    options.plan = {{.what = What::kStart, .at = std::chrono::milliseconds(600), .role = Role::kServer},
                    {.what = What::kStart, .at = std::chrono::milliseconds(700), .role = Role::kServer},
                    {.what = What::kLeave, .at = std::chrono::milliseconds(3000), .role = Role::kServer}};
  }
  if (job.paused) {
    Rng pauses(Mix(job.seed, 9));
    for (int i = 0; i < 3; ++i) {
      options.plan.push_back({.what = PlannedFault::What::kPauseJob,
                              .at = FromSeconds(0.5 + 8 * pauses.Uniform()),
                              .lasts = FromSeconds(3 * pauses.Uniform())});
    }
  }
  options.move_death = job.move_death;
  if (!job.strategy.on_servers()) return options;
  options.replicas = job.replicas;
  if (job.sites) {
    options.server_places = {{"north", "a", ""}, {"south", "a", ""}, {"north", "b", ""}, {"south", "b", ""}};
    options.max_servers = 2 * job.servers;
  }
  options.forward_death = job.forward_death;
  options.forward_timeout = std::chrono::milliseconds(600);
  if (!job.fault_free && Rng(Mix(job.seed, 9)).Chance(0.5)) faults.deaths_in_forwards = 0.0005;
  return options;
}

ClusterResult RunSwarm(const SwarmJob& job) {
  return RunSwarm(job, SwarmOptions(job));
}

ClusterResult RunSwarm(const SwarmJob& job, ClusterOptions options, Hooks hooks) {
  CountingWorkload workload(options.table, options.strategy);
  // A stopped job is resumed with another number of servers and another batch size.
  Rng rng(Mix(job.seed, 2));
  const bool on_servers = job.strategy.on_servers();
  options.resume = [&rng, on_servers, most = job.servers + 1](uint32_t* servers, CutRules* cuts) {
    if (on_servers) *servers = 1 + static_cast<uint32_t>(rng.Below(most));
    DrawBatches(rng, cuts);
    return true;
  };
  return RunAndCheck(options, workload, std::move(hooks));
}

ClusterResult RunWithStandbys(const StandbyJob& job) {
  ClusterOptions options = SwarmOptions({.seed = job.seed,
                                         .strategy = job.strategy,
                                         .fault_free = job.only_kill,
                                         .standby = false,
                                         .paused = job.paused,
                                         .replicas = job.replicas});
  Rng rng(Mix(job.seed, 9));
  options.coordinator_standbys = static_cast<uint32_t>(job.standbys);
  options.followers = job.followers;
  // A coordinator that waits for the members to learn which of them are left answers late.
  options.heartbeat_timeout = std::chrono::seconds(3);
  options.leases = {};
  options.max_servers = 0;
  options.time_limit = std::chrono::seconds(200);
  options.progress_within = std::chrono::seconds(40);
  Faults& faults = options.faults;
  faults.damaged = faults.deaths_in_moves = faults.deaths_in_forwards = faults.full_disk = 0;
  if (job.only_kill) {
    options.reply_timeout = std::chrono::seconds(3);
    options.plan = {{.what = PlannedFault::What::kKill,
                     .at = std::chrono::milliseconds(2500) + FromSeconds(2 * rng.Uniform()),
                     .role = Role::kCoordinator,
                     .lasts = std::chrono::seconds(1000)}};
  } else {
    faults.fault_interval = FromSeconds(rng.Chance(0.5) ? 0.4 : 1.5);
    faults.lost = rng.Chance(0.5) ? 0.01 : 0;
    faults.crash_between_actions = rng.Chance(0.5) ? 0.0005 : 0;
    faults.longest_pause = std::chrono::seconds(rng.Chance(0.2) ? 30 : 4);
    faults.until = std::chrono::seconds(12);
    // The stream grows for longer than most faults last, so that there is something to lease.
    options.stream.takes = std::chrono::seconds(12);
  }
  CountingWorkload workload(options.table, options.strategy);
  return RunAndCheck(options, workload);
}

ClusterResult RunWithEvictedWorker(uint64_t seed) {
  using std::chrono::seconds;
  using What = PlannedFault::What;
  ClusterOptions options =
      SwarmOptions({.seed = seed,
                    .servers = 2,
                    .workers = 4,
                    .strategy = {.kind = StrategyKind::kSync, .lanes = 4, .auto_lanes = true},
                    .fault_free = true,
                    .standby = false});
  options.cuts.batch_size = 4;
  options.cuts.split_batches = 8;
  options.cuts.epochs = 1;
  options.stream.partitions.assign(2, {0, 1200});
  options.stream.takes = Duration(0);
  // Rounds are leased for 25 s. Two workers that compute the same lane need the same time for it.
  options.compute = {Distribution::Kind::kConstant, 0.2, 0};
  options.checkpoint_interval = Duration(0);
  options.plan = {{.what = What::kPause, .at = seconds(2), .lasts = seconds(13)},
                  {.what = What::kCutOff, .at = seconds(2), .lasts = seconds(60)},
                  {.what = What::kStart, .at = seconds(7)}};
  CountingWorkload workload(options.table, options.strategy);
  return RunAndCheck(options, workload);
}

}  // namespace leat::sim

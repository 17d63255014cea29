#include "lab/study/simulation.h"

#include <algorithm>

#include "lab/sim/workload.h"
#include "lab/study/measurement.h"

namespace leat::study {

Result<Costs> CostsOf(const Profile& profile, const job::Job& job, std::string_view name) {
  LEAT_RETURN_IF_ERROR(CheckProfile(profile, job, name));
  LEAT_ASSIGN_OR_RETURN(const BatchProfile batch, BatchOf(profile, job.batch_size, name));
  return Costs{.compute = batch.compute(),
               .first_gradient = batch.first_gradient,
               .server = profile.server.cost(),
               .worker = profile.worker.cost(),
               .member = profile.member.cost(),
               .event_bytes = profile.input.event_bytes,
               .decode_s = profile.input.decode_s};
}

void ModelStream(const job::Job& job, const SimulationSettings& settings, sim::ClusterOptions* options) {
  const uint64_t batches =
      (settings.steps > 0 ? settings.steps : 100) * std::max(job.workers, job.strategy.total_lanes());
  const uint64_t events = settings.events > 0 ? settings.events : batches * job.batch_size;
  const uint64_t push = uint64_t{job.batch_size} * job.strategy.run();
  const uint64_t pushes = (events + push - 1) / push;
  const uint64_t partitions = std::min<uint64_t>(pushes, 16);
  options->cuts.epochs = 1;
  for (uint64_t p = 0; p < partitions; ++p) {
    const uint64_t begin = pushes * p / partitions * push, end = pushes * (p + 1) / partitions * push;
    options->stream.partitions.push_back({0, std::min(end, events) - begin});
  }
}

sim::ClusterOptions OptionsFor(const job::Job& job, const Costs& costs, const SimulationSettings& settings) {
  sim::ClusterOptions options;
  options.seed = settings.seed;
  options.workers = job.workers;
  options.servers = job.servers;
  options.table = job.Slices();
  options.placement = job.placement;
  options.optimizer = job.ServerOptimizer();
  options.strategy = job.strategy;
  options.replicas = job.replicas;
  // Places come from the description of the cluster, and nobody is refused.
  options.topology = job.topology;
  options.topology.hosts.clear();
  options.topology.refuse_far = false;
  options.cuts = job.Cuts();
  options.worker_link = options.server_link = settings.link;
  options.slowness = settings.slowness;
  options.compute = costs.compute;
  options.compute_threads = static_cast<uint32_t>(std::max(1, job.compute.intra_op_threads));
  options.first_gradient = costs.first_gradient;
  options.server_cost = costs.server;
  options.worker_cost = costs.worker;
  options.member_cost = costs.member;
  options.leases_ahead = 3;
  options.checkpoint_interval = FromSeconds(job.checkpoint_interval_s);
  bool deaths = false;
  Duration latency = settings.link.latency;
  if (settings.cluster) {
    Place(*settings.cluster, job.workers, job.servers, &options);
    if (options.input.event_bytes == 0) options.input.event_bytes = costs.event_bytes;
    if (options.input.decode == 0) options.input.decode = costs.decode_s;
    // Without a source that is limited, every host has the stream.
    if (options.input.link.bytes_per_s == 0) options.input.event_bytes = 0;
    deaths = options.deaths.mean_time_between > Duration(0);
    for (const sim::Host& host : options.hosts) latency = std::max(latency, host.link.latency);
    for (const sim::Link& zone : options.zones) latency += zone.latency;
  } else {
    options.input.decode = costs.decode_s;
  }
  const double slowest = options.compute.mean * (options.slowness.empty() ? 1 : options.slowness.front());
  if (deaths) {
    // Failures are found as the job says.
    options.heartbeat_interval =
        std::max<Duration>(job.heartbeat_interval / 5, std::chrono::milliseconds(100));
    options.heartbeat_timeout = std::max(job.heartbeat_timeout, 4 * options.heartbeat_interval + 4 * latency);
    options.reply_timeout = std::chrono::seconds(10) + FromSeconds(10 * slowest);
    options.parked_timeout = options.reply_timeout / 2;
    return options;
  }
  // No process fails, so heartbeats can be rare, which saves messages in large clusters, and timeouts long,
  // so that neither a slow worker nor a full link is taken for a failure.
  options.heartbeat_interval =
      std::max<Duration>({std::chrono::milliseconds(100) * std::max(1u, (job.workers + job.servers) / 100),
                          FromSeconds(options.compute.mean / 4), 4 * latency});
  options.heartbeat_timeout = 100 * options.heartbeat_interval;
  const Duration patience = std::chrono::hours(1) + FromSeconds(100 * slowest) + 100 * latency;
  options.reply_timeout = options.checkpoint_timeout = patience;
  options.parked_timeout = patience / 2;
  return options;
}

Result<double> SimulatedSpeed(const sim::ClusterOptions& options, Duration warm_up, Duration measure) {
  ThroughputMeter meter(warm_up);
  sim::Hooks hooks;
  hooks.watch_every = std::chrono::milliseconds(20);
  hooks.watch = [&](const sim::Cluster& cluster) {
    meter.Add(cluster.now(), cluster.status().events);
    return meter.measured() < measure;
  };
  sim::ModelledWorkload workload;
  const sim::ClusterResult result = sim::Cluster(options, workload, hooks).Run();
  if (!meter.rate())
    return Status(Code::kInternal, result.error.empty() ? "the job is too short" : result.error);
  return *meter.rate();
}

}  // namespace leat::study

#include "lab/study/simulation.h"

#include <algorithm>
#include <stdexcept>

#include "lab/sim/events/distribution.h"
#include "lab/study/analysis.h"

namespace leat::study {

namespace {

constexpr int64_t kMostHosts = 20'000;
constexpr uint32_t kMostWorkers = 10'000, kMostServers = 1000;
constexpr Duration kLongestLatency = std::chrono::seconds(10);

// The parsers of texts throw without a place.
template <class Parse>
auto In(const Config& scalar, const Parse& parse) {
  try {
    return parse(scalar.String());
  } catch (const std::invalid_argument& e) {
    // A message of the configuration has its place.
    if (std::string_view(e.what()).starts_with(scalar.where())) throw;
    scalar.Fail(e.what());
  }
}

Duration TimeOr(const Config& map, std::string_view key, Duration fallback, Duration most) {
  if (!map.Has(key)) return fallback;
  const Duration time = In(map.At(key), sim::ParseDuration);
  if (time > most)
    map.At(key).Fail(std::string(key) + " is longer than " + std::to_string(Seconds(most)) + " s");
  return time;
}

sim::Link ReadLink(const Config& map, std::string_view key, Duration latency) {
  sim::Link link{.latency = TimeOr(map, "latency", latency, kLongestLatency)};
  if (map.Has(key)) link.bytes_per_s = In(map.At(key), sim::ParseBandwidth);
  if (map.Has("burst")) link.burst = In(map.At("burst"), sim::ParseBytes);
  return link;
}

uint32_t IndexOf(const Config& word, std::string_view what, const std::vector<std::string>& names) {
  const std::string name = word.OneOf(what, names);
  return static_cast<uint32_t>(std::ranges::find(names, name) - names.begin());
}

}  // namespace

uint32_t ClusterFile::PlacesOf(uint32_t HostGroup::*role) const {
  uint32_t places = 0;
  for (const HostGroup& group : groups) places += group.count * group.*role;
  return places;
}

ClusterFile ParseCluster(const Config& config) {
  config.Allow({"classes", "hosts", "zones", "input", "deaths", "disk"});
  ClusterFile file;
  std::vector<std::string> classes;
  const Config all = config.At("classes");
  for (const std::string& name : all.Keys()) {
    const Config entry = all.At(name);
    entry.Allow({"cores", "speed", "link", "latency", "burst", "price"});
    HostClass& made = file.classes.emplace_back();
    made.name = name;
    made.host.link = ReadLink(entry, "link", std::chrono::microseconds(100));
    made.host.cores = entry.Number("cores", 0, 0, 1024);
    made.host.speed = entry.Number("speed", 1, 0.001, 1000);
    made.price = entry.Number("price", 0, 0, 1e6);
    classes.push_back(name);
  }
  if (config.Has("zones")) {
    const Config zones = config.At("zones");
    for (const std::string& name : zones.Keys()) {
      const Config entry = zones.At(name);
      entry.Allow({"link", "latency", "burst"});
      file.zone_names.push_back(name);
      file.zones.push_back(ReadLink(entry, "link", Duration(0)));
    }
  }
  const Config hosts = config.At("hosts");
  int64_t count = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const Config entry = hosts[i];
    entry.Allow({"class", "count", "workers", "ps", "zone", "place"});
    HostGroup& group = file.groups.emplace_back();
    group.host_class = IndexOf(entry.At("class"), "class", classes);
    group.count = static_cast<uint32_t>(entry.Integer("count", 1, 1, kMostHosts));
    group.workers = static_cast<uint32_t>(entry.Integer("workers", 0, 0, 1024));
    group.servers = static_cast<uint32_t>(entry.Integer("ps", 0, 0, 1024));
    if (group.workers + group.servers == 0) entry.Fail("a host without workers and ps");
    count += group.count;
    if (count > kMostHosts) entry.Fail("more than " + std::to_string(kMostHosts) + " hosts");
    if (entry.Has("place")) {
      const Config place = entry.At("place");
      place.Allow({"site", "zone", "class"});
      group.place = {place.String("site", ""), place.String("zone", ""), place.String("class", "")};
      if (const Status good = topology::Check(group.place); !good.ok()) place.Fail(good.message());
    }
    if (entry.Has("zone"))
      group.zone = IndexOf(entry.At("zone"), "zone", file.zone_names);
    else if (!file.zones.empty())
      entry.Fail("needs a zone, since there are zones");
  }
  if (file.workers() == 0) hosts.Fail("there is no host with workers");
  if (file.workers() > kMostWorkers || file.servers() > kMostServers) {
    hosts.Fail("places for " + std::to_string(file.workers()) + " workers and " +
               std::to_string(file.servers()) + " servers; at most " + std::to_string(kMostWorkers) +
               " and " + std::to_string(kMostServers));
  }
  if (config.Has("input")) {
    const Config input = config.At("input");
    input.Allow({"link", "latency", "burst", "event_bytes", "decode"});
    file.input.link = ReadLink(input, "link", std::chrono::microseconds(100));
    file.input.event_bytes = input.Number("event_bytes", 0, 0, 1e9);
    file.input.decode = Seconds(TimeOr(input, "decode", Duration(0), std::chrono::seconds(60)));
  }
  if (config.Has("deaths")) {
    const Config deaths = config.At("deaths");
    deaths.Allow({"every", "restart"});
    const Duration day = std::chrono::hours(24);
    file.deaths.mean_time_between = TimeOr(deaths, "every", Duration(0), 365 * day);
    file.deaths.restart = TimeOr(deaths, "restart", std::chrono::seconds(1), day);
    if (file.deaths.mean_time_between <= std::chrono::seconds(1))
      deaths.Fail("every must be a time of more than a second, the mean for each process");
  }
  if (config.Has("disk")) file.disk_bytes_per_s = In(config.At("disk"), sim::ParseBandwidth);
  return file;
}

void Place(const ClusterFile& file, uint32_t workers, uint32_t servers, sim::ClusterOptions* options) {
  if (workers > file.workers() || servers > file.servers()) {
    const bool of_workers = workers > file.workers();
    throw std::invalid_argument("the cluster has places for " +
                                std::to_string(of_workers ? file.workers() : file.servers()) +
                                (of_workers ? " workers, not for " : " servers, not for ") +
                                std::to_string(of_workers ? workers : servers));
  }
  for (const HostGroup& group : file.groups) {
    for (uint32_t i = 0; i < group.count; ++i) {
      const uint32_t placed_workers = std::min(workers, group.workers),
                     placed_servers = std::min(servers, group.servers);
      if (placed_workers + placed_servers == 0) continue;
      workers -= placed_workers;
      servers -= placed_servers;
      const auto index = static_cast<uint32_t>(options->hosts.size());
      sim::Host host = file.classes[group.host_class].host;
      host.zone = group.zone;
      host.place = group.place;
      options->hosts.push_back(host);
      options->worker_hosts.insert(options->worker_hosts.end(), placed_workers, index);
      options->server_hosts.insert(options->server_hosts.end(), placed_servers, index);
    }
  }
  options->zones = file.zones;
  options->input = file.input;
  options->deaths = file.deaths;
  options->disk_bytes_per_s = file.disk_bytes_per_s;
}

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

// Hosts: shared links and cores, zones, limited input, deaths.
#include <gtest/gtest.h>

#include "lab/sim/cluster/cluster.h"

namespace leat::sim {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kBatch = 100;

// Workers of 10 ms a batch, and a server, each on a host without limits.
ClusterOptions Options(uint32_t workers, uint32_t batches) {
  ClusterOptions options;
  options.workers = workers;
  options.table = protocol::MakeSlices({{"w", Shape{250'000}, {}}}, 1, 1);
  options.cuts.batch_size = kBatch;
  options.cuts.split_batches = 8;
  options.stream.partitions.assign(4, {0, uint64_t{workers} * batches * kBatch / 4});
  options.compute = {.mean = 0.010};
  options.heartbeat_interval = 50ms;
  options.heartbeat_timeout = 2s;
  options.reply_timeout = 60s;
  options.parked_timeout = 30s;
  return options;
}
// A host for each process; the server's is the last one.
void GiveHosts(ClusterOptions* options, const Host& host) {
  options->hosts.assign(options->workers + 1, host);
  for (uint32_t i = 0; i < options->workers; ++i) options->worker_hosts.push_back(i);
  options->server_hosts = {options->workers};
}

ClusterResult Simulate(const ClusterOptions& options) {
  ModelledWorkload workload;
  ClusterResult result = Cluster(options, workload).Run();
  EXPECT_EQ(result.error, "");
  return result;
}
double Took(const ClusterOptions& options) {
  return Seconds(Simulate(options).took);
}

TEST(Hosts, WithoutLimitsAreLikeHostsThatAreNotDescribed) {
  ClusterOptions options = Options(4, 40);
  const double without = Took(options);
  GiveHosts(&options, {});
  EXPECT_DOUBLE_EQ(Took(options), without);
}

TEST(Hosts, ASlowerHostTakesLonger) {
  ClusterOptions options = Options(2, 100);
  GiveHosts(&options, {});
  const double fast = Took(options);
  for (Host& host : options.hosts) host.speed = 0.5;
  EXPECT_NEAR(Took(options) / fast, 2, 0.2);
}

TEST(Hosts, RolesOfAHostShareItsCores) {
  ClusterOptions options = Options(4, 100);
  options.hosts = {{.cores = 8}};
  options.worker_hosts = {0, 0, 0, 0};
  options.server_hosts = {0};
  const double enough = Took(options);
  options.hosts[0].cores = 2;
  // A second of computing takes two.
  EXPECT_NEAR(Took(options) - enough, 1, 0.1);
  // A server that computes takes its part.
  options.hosts[0].cores = 1;
  options.server_cost.message = 10ms;
  const double busy = Took(options);
  EXPECT_GT(busy / enough, 7);
}

TEST(Hosts, RolesOfAHostShareItsLink) {
  // A push of a megabyte, and as much in reply.
  ClusterOptions options = Options(6, 40);
  GiveHosts(&options, {.link = {.bytes_per_s = 1e8}});
  options.hosts[6].link.bytes_per_s = 0;
  const double apart = Took(options);
  options.worker_hosts.assign(6, 0);
  // 10 ms of computing and 10 ms each way; together, 60 ms each way.
  EXPECT_NEAR(Took(options) - apart, 40 * 0.030, 40 * 0.005);
  // Messages within a host do not use its link.
  options.server_hosts = {0};
  EXPECT_LT(Took(options), 0.6 * apart);
}

TEST(Hosts, ABucketLetsMessagesPass) {
  ClusterOptions options = Options(1, 40);
  GiveHosts(&options, {.link = {.bytes_per_s = 1e8}});
  const double slow = Took(options);
  // 10 ms refill the bucket for a megabyte.
  for (Host& host : options.hosts) host.link.burst = 1'100'000;
  const double burst = Took(options);
  EXPECT_LT(burst, 0.6 * slow);
  // Not if it is small.
  for (Host& host : options.hosts) host.link.burst = 10'000;
  EXPECT_GT(Took(options), 0.9 * slow);
}

TEST(Hosts, ConnectionsTakeTurnsOnALinkIfAllWaitForTheSameStep) {
  ClusterOptions options = Options(4, 200);
  GiveHosts(&options, {.link = {.bytes_per_s = 1e9}});
  options.strategy.kind = protocol::StrategyKind::kSync;
  options.strategy.lanes = 4;
  options.cuts.run = options.strategy.run();
  // The server's link has 4 MB each way in a step, and nobody has all before the others.
  const double turns = Took(options) / 200;
  EXPECT_NEAR(turns, 0.010 + 0.004 + 0.004, 0.0015);
  // When workers receive one after the other, the first ones compute while the others still receive.
  options.window = 2 << 20;
  EXPECT_LT(Took(options) / 200, turns - 0.001);
  // Asynchronous workers do not take turns at all.
  options = Options(4, 200);
  GiveHosts(&options, {.link = {.bytes_per_s = 1e9}});
  const double whole = Took(options);
  options.window = 64 << 10;
  EXPECT_DOUBLE_EQ(Took(options), whole);
}

TEST(Hosts, ZonesShareTheirLink) {
  ClusterOptions options = Options(4, 40);
  GiveHosts(&options, {.link = {.bytes_per_s = 1e9}});
  const double together = Took(options);
  for (uint32_t i = 0; i < 4; ++i) options.hosts[i].zone = 1;
  options.zones = {{}, {.bytes_per_s = 1e8}};
  // 4 MB each way for each round of batches.
  EXPECT_GT(Took(options), 40 * 0.040);
  EXPECT_GT(Took(options) / together, 2.5);
  // Within a zone its link does not matter.
  options.hosts[4].zone = 1;
  EXPECT_NEAR(Took(options), together, 0.01 * together);
  // The latency of a zone adds to that of the hosts.
  options.hosts[4].zone = 0;
  options.zones = {{.latency = 5ms}, {.latency = 5ms}};
  EXPECT_NEAR(Took(options) - together, 40 * 0.020, 40 * 0.006);
}

TEST(Hosts, ZonesShareTheirLinkInAllReduceToo) {
  ClusterOptions options = Options(4, 20);
  options.servers = 0;
  options.strategy.kind = protocol::StrategyKind::kAllReduce;
  options.strategy.lanes = 4;
  options.hosts.assign(4, {.link = {.bytes_per_s = 1e9}});
  options.worker_hosts = {0, 1, 2, 3};
  const double together = Took(options);
  options.hosts[2].zone = options.hosts[3].zone = 1;
  options.zones = {{.bytes_per_s = 1e7}, {.bytes_per_s = 1e7}};
  // A ring crosses twice in each direction: 1.5 MB of each gradient.
  EXPECT_GT(Took(options), 20 * 0.15);
  EXPECT_GT(Took(options), 3 * together);
}

TEST(Input, LimitsTheSpeed) {
  ClusterOptions options = Options(4, 80);
  const double free = Took(options);
  options.input = {.link = {.bytes_per_s = 1e7}, .event_bytes = 1000};
  const double events = 4.0 * 80 * kBatch;
  // 10,000 events a second, for all workers together.
  EXPECT_NEAR(Took(options), events / 1e4, 0.1 * events / 1e4);
  // Reading is ahead of computing, so an input that is fast enough costs nothing.
  options.input.link.bytes_per_s = 1e9;
  EXPECT_NEAR(Took(options), free, 0.1 * free);
}

TEST(Input, DecodingLimitsEachWorker) {
  ClusterOptions options = Options(2, 80);
  options.input = {.decode = 200e-6};  // 20 ms a batch
  EXPECT_NEAR(Took(options), 80 * 0.020, 0.2 * 80 * 0.020);
  // Hosts that are described have a core for it, or not.
  GiveHosts(&options, {.cores = 1});
  EXPECT_NEAR(Took(options), 80 * 0.030, 0.2 * 80 * 0.030);
}

TEST(Deaths, AreReplacedAndNothingIsLost) {
  ClusterOptions options = Options(4, 400);
  GiveHosts(&options, {.link = {.bytes_per_s = 1e9}});
  options.heartbeat_timeout = 500ms;
  options.reply_timeout = 1s;
  options.parked_timeout = 500ms;
  options.checkpoint_interval = 1s;
  const double without = Took(options);
  options.deaths = {.mean_time_between = 8s, .restart = 100ms};
  options.check = true;
  const ClusterResult result = Simulate(options);
  EXPECT_GT(result.deaths, 1u);
  EXPECT_GT(Seconds(result.took), without);
}

TEST(Hosts, TheSameSeedIsTheSameRun) {
  ClusterOptions options = Options(4, 40);
  options.compute = {Distribution::Kind::kLognormal, 0.010, 0.3};
  GiveHosts(&options, {.link = {.bytes_per_s = 1e8, .burst = 100'000}, .cores = 1});
  options.input = {.link = {.bytes_per_s = 1e8}, .event_bytes = 500, .decode = 1e-6};
  options.zones = {{.bytes_per_s = 1e9, .latency = 1ms}, {.bytes_per_s = 1e9}};
  options.hosts[0].zone = 1;
  const ClusterResult a = Simulate(options), b = Simulate(options);
  EXPECT_EQ(a.took, b.took);
  EXPECT_EQ(a.messages, b.messages);
  options.seed = 2;
  EXPECT_NE(Simulate(options).took, a.took);
}

}  // namespace
}  // namespace leat::sim

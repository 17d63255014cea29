#include "protocol/topology/topology_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace leat::topology {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TopologySettings Parse(const std::string& yaml) {
  return TopologyFromConfig(Config::Parse(yaml, "job.yaml"));
}

std::string Refused(const std::string& yaml) {
  try {
    Parse(yaml);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(TopologySettings, AllKeys) {
  const TopologySettings settings = Parse(
      "servers: {site: north, class: bandwidth}\n"
      "workers: {class: cores}\n"
      "max_latency_ms: 20\n"
      "far: refuse\n"
      "hosts:\n"
      "  alpha: {site: north, zone: a, class: bandwidth}\n"
      "  beta: {site: south, zone: b, class: cores}\n"
      "brokers:\n"
      "  3: {site: north, zone: a}\n");
  EXPECT_EQ(settings.server_site, "north");
  EXPECT_EQ(settings.server_class, "bandwidth");
  EXPECT_EQ(settings.worker_class, "cores");
  EXPECT_EQ(settings.max_latency, milliseconds(20));
  EXPECT_TRUE(settings.refuse_far);
  EXPECT_EQ(settings.hosts.at("beta"), (HostPlace{"south", "b", "cores"}));
  EXPECT_EQ(settings.brokers.at(3), (HostPlace{"north", "a", ""}));
  EXPECT_TRUE(Parse("servers: {site: any}").servers_anywhere);
}

TEST(TopologySettings, MistakesAreNamedWithTheirPlace) {
  EXPECT_THAT(Refused("servers: {site: 'no rth'}"), HasSubstr("site 'no rth' is no name"));
  EXPECT_THAT(Refused("hosts: {a: {zone: x}}\nservers: {zone: x}"), HasSubstr("zone"));
  EXPECT_THAT(Refused("hosts: {a: {class: cores}}\nworkers: {class: gpu}"),
              HasSubstr("job.yaml:2: no host offers the class 'gpu'; there are: cores"));
  EXPECT_THAT(Refused("hosts: {a: {site: x}}\nservers: {site: y}"), HasSubstr("no host offers the site 'y'"));
  EXPECT_THAT(Refused("brokers: {one: {zone: a}}"), HasSubstr("'one' is no id of a broker"));
  EXPECT_THAT(Refused("far: refuse"), HasSubstr("far needs max_latency_ms"));
  EXPECT_THAT(Refused("max_latency_ms: 5\nfar: away"), HasSubstr("away"));
  EXPECT_THAT(Refused("max_latency_ms: -1"), HasSubstr("max_latency_ms"));
  EXPECT_THAT(Refused("hosts: {}"), HasSubstr("hosts is empty"));
  EXPECT_THAT(Refused("hosts: {a: {rack: 3}}"), HasSubstr("rack"));
}

TEST(TopologySettings, AJobOnOneHost) {
  const TopologySettings map{.hosts = {{"alpha", {"north", "a", "cores"}}, {"beta", {"north", "b", ""}}}};
  EXPECT_THAT(CheckOneHost(map, "alpha", {}).message(), HasSubstr("has host 'beta'"));
  EXPECT_THAT(CheckOneHost(map, "gamma", {}).message(), HasSubstr("'gamma' is not in the job's zone map"));
  const TopologySettings classes{.worker_class = "cores"};
  EXPECT_THAT(CheckOneHost(classes, "alpha", {}).message(), HasSubstr("no host offers the class 'cores'"));
  EXPECT_TRUE(CheckOneHost(classes, "alpha", {"", "", "cores"}).ok());
  EXPECT_TRUE(CheckOneHost({}, "alpha", {}).ok());
}

TEST(RoundTrips, TheLeastOfTheLastFewCounts) {
  RoundTrips round_trips;
  EXPECT_EQ(round_trips.least(), Duration(0));
  round_trips.Add(milliseconds(90));  // it made the connection
  round_trips.Add(milliseconds(12));
  round_trips.Add(milliseconds(40));
  EXPECT_EQ(round_trips.least(), milliseconds(12));
  for (size_t i = 0; i < RoundTrips::kLast; ++i) round_trips.Add(milliseconds(50));
  EXPECT_EQ(round_trips.least(), milliseconds(50)) << "the way has become longer";
  EXPECT_EQ(round_trips.added(), 3 + RoundTrips::kLast);
}

}  // namespace
}  // namespace leat::topology

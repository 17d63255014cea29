#include "lab/study/simulation.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace leat::study {
namespace {

constexpr const char* kFile = R"(
classes:
  small: {cores: 2, link: 1gbit, price: 0.1}
  big: {cores: 16, speed: 1.5, link: 10gbit, burst: 512kb, latency: 50us, price: 0.9}
zones:
  a: {link: 10gbit, latency: 1ms}
  b: {link: 1gbit, latency: 1ms}
hosts:
  - {class: small, count: 3, workers: 2, zone: a, place: {site: north, zone: z, class: cores}}
  - {class: big, count: 2, workers: 1, ps: 1, zone: b}
input: {link: 1gbit, event_bytes: 800, decode: 2us}
deaths: {every: 2h, restart: 30s}
disk: 1gbit
)";

ClusterFile Parse(const std::string& text) {
  return ParseCluster(Config::Parse(text, "c.yaml"));
}

TEST(ClusterFile, DescribesHosts) {
  const ClusterFile file = Parse(kFile);
  EXPECT_EQ(file.workers(), 8u);
  EXPECT_EQ(file.servers(), 2u);
  sim::ClusterOptions options;
  Place(file, 7, 1, &options);
  ASSERT_EQ(options.hosts.size(), 4u);  // the last one has nothing to do
  EXPECT_EQ(options.worker_hosts, (std::vector<uint32_t>{0, 0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(options.server_hosts, (std::vector<uint32_t>{3}));
  EXPECT_EQ(options.hosts[3].link.burst, 512u << 10);
  EXPECT_EQ(options.hosts[3].zone, 1u);
  EXPECT_EQ(options.hosts[0].place, (topology::HostPlace{"north", "z", "cores"}));
  EXPECT_EQ(options.hosts[3].place, topology::HostPlace());
  EXPECT_EQ(options.hosts[3].speed, 1.5);
  EXPECT_EQ(options.zones.size(), 2u);
  EXPECT_EQ(options.input.event_bytes, 800);
  EXPECT_EQ(options.deaths.restart, std::chrono::seconds(30));
  EXPECT_EQ(file.classes[0].price, 0.1);
  EXPECT_EQ(file.classes[1].price, 0.9);
  EXPECT_THROW(Place(file, 9, 1, &options), std::invalid_argument);
  EXPECT_THROW(Place(file, 1, 3, &options), std::invalid_argument);
}

TEST(ClusterFile, WrongOnesAreRefusedWithTheirPlace) {
  const auto refused = [](const std::string& text, const std::string& what) {
    try {
      Parse(text);
      FAIL() << what;
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
      EXPECT_TRUE(std::string(e.what()).starts_with("c.yaml:")) << e.what();
    }
  };
  refused("classes: {a: {link: fast}}\nhosts: [{class: a, workers: 1}]", "fast");
  refused("classes: {a: {}}\nhosts: [{class: b, workers: 1}]", "class 'b'");
  refused("classes: {a: {}}\nhosts: [{class: a}]", "without workers");
  refused("classes: {a: {}}\nhosts: [{class: a, ps: 1}]", "no host with workers");
  refused("classes: {a: {}}\nhosts: [{class: a, workers: 1}]\nzones: {x: {}}", "needs a zone");
  refused("classes: {a: {}}\nhosts: [{class: a, workers: 0, ps: -1}]", "ps is -1");
  refused("classes: {a: {}}\nhosts: [{class: a, workers: 1}]\ndeaths: {every: 1ms}", "every");
  refused("classes: {a: {colour: red}}\nhosts: [{class: a, workers: 1}]", "colour");
}

}  // namespace
}  // namespace leat::study

#include "show/tensorboard/run_writer.h"

#include <gtest/gtest.h>

namespace leat::tensorboard {
namespace {

using std::chrono::seconds;

report::JobStatus StatusOf(uint64_t events, std::optional<uint32_t> server,
                           const std::string& phase = "running") {
  report::JobStatus status;
  status.phase = phase;
  status.events = events;
  status.variables = {{"w", 8}};
  if (server) status.variables->front().ps = {{*server, 8}};
  return status;
}

// "start@5 graph:1@5 points@5": what events there are, with the server of the graph's variable and their
// steps.
std::string Kinds(const std::vector<Event>& events) {
  std::string text;
  for (const Event& event : events) {
    if (!text.empty()) text += " ";
    if (std::holds_alternative<RunStart>(event.what)) text += "start";
    if (std::holds_alternative<Summary>(event.what)) text += "points";
    if (const auto* graph = std::get_if<Graph>(&event.what)) text += "graph:" + graph->nodes.at(0).device;
    text += "@" + std::to_string(event.step);
  }
  return text;
}

RunEvents Make() {
  return RunEvents([](const auto& placement) {
    const auto& parts = placement.value().at(0).ps;
    return Graph{{{.device = parts.empty() ? "?" : std::to_string(parts[0].index)}}};
  });
}

TEST(RunEvents, PointsGrowRarer) {
  EXPECT_EQ(PauseAfter(seconds(0)), seconds(1));
  EXPECT_EQ(PauseAfter(seconds(5000)), seconds(5));
  EXPECT_EQ(PauseAfter(seconds(500'000)), seconds(30));
}

TEST(RunEvents, WaitsForTheServers) {
  auto run = Make();
  EXPECT_EQ(Kinds(run.OnStatus(seconds(1), 0, StatusOf(0, {}, "waiting for servers"))), "");
  EXPECT_EQ(Kinds(run.OnStatus(seconds(2), 0, StatusOf(70, 0))), "start@70 graph:0@70 points@70");
  EXPECT_EQ(Kinds(run.OnStatus(seconds(3), 0, StatusOf(80, 0))), "points@80");
}

TEST(RunEvents, AGraphFollowsThePlacement) {
  auto run = Make();
  (void)run.OnStatus(seconds(1), 0, StatusOf(1, 0));
  // It is written when the placement stays.
  EXPECT_EQ(Kinds(run.OnStatus(seconds(2), 0, StatusOf(2, 1))), "points@2");
  EXPECT_EQ(Kinds(run.OnStatus(seconds(3), 0, StatusOf(3, 1))), "graph:1@3 points@3");
  EXPECT_EQ(Kinds(run.OnStatus(seconds(4), 0, StatusOf(4, 1))), "points@4");
  // There and back.
  EXPECT_EQ(Kinds(run.OnStatus(seconds(5), 0, StatusOf(5, 2))), "points@5");
  EXPECT_EQ(Kinds(run.OnStatus(seconds(6), 0, StatusOf(6, 1))), "points@6");
  // A placement that never stays.
  EXPECT_EQ(Kinds(run.OnStatus(seconds(7), 0, StatusOf(7, 2))), "points@7");
  EXPECT_EQ(Kinds(run.OnStatus(seconds(12), 0, StatusOf(8, 3))), "points@8");
  EXPECT_EQ(Kinds(run.OnStatus(seconds(17), 0, StatusOf(9, 4))), "graph:4@9 points@9");
  // A variable without a server is about to get one.
  EXPECT_EQ(Kinds(run.OnStatus(seconds(18), 0, StatusOf(10, {}))), "points@10");
  EXPECT_EQ(Kinds(run.OnStatus(seconds(40), 0, StatusOf(11, {}))), "points@11");
  EXPECT_EQ(Kinds(run.OnStatus(seconds(41), 0, StatusOf(12, 5, "ended"), true)), "graph:5@12 points@12");
}

TEST(RunEvents, FallsBackWithTheJob) {
  auto run = Make();
  (void)run.OnStatus(seconds(1), 0, StatusOf(100, 0));
  EXPECT_EQ(Kinds(run.OnStatus(seconds(2), 0, StatusOf(0, 0, "waiting for servers"))), "");
  EXPECT_EQ(Kinds(run.OnStatus(seconds(3), 0, StatusOf(60, 0))), "start@60 points@60");
  EXPECT_EQ(Kinds(run.OnStatus(seconds(4), 0, StatusOf(60, 0))), "points@60");
}

TEST(RunEvents, WhatIsLostIsRepeated) {
  auto run = Make();
  (void)run.OnStatus(seconds(1), 0, StatusOf(1, 0));
  run.OnLost();
  EXPECT_EQ(Kinds(run.OnStatus(seconds(2), 0, StatusOf(2, 0))), "start@2 graph:0@2 points@2");
}

TEST(RunEvents, Weights) {
  auto run = Make();
  EXPECT_TRUE(run.OnWeights(5, 60, {{"dense1/weight", Histogram{.count = 2}}}).empty());
  (void)run.OnStatus(seconds(1), 0, StatusOf(70, 0));
  const Event event = run.OnWeights(5, 60, {{"dense1/weight", Histogram{.count = 2}}}).at(0);
  EXPECT_EQ(event.step, 60);
  EXPECT_EQ(std::get<Summary>(event.what).histograms.at(0).name, "weights/dense1/weight");
}

}  // namespace
}  // namespace leat::tensorboard

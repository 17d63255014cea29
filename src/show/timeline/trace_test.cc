#include "show/timeline/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

namespace leat::timeline {
namespace {

using Json = nlohmann::json;
using std::chrono::microseconds;
using std::chrono::seconds;

Time At(int64_t us) {
  return seconds(100) + microseconds(us);
}

Span Make(Kind kind, int64_t begin, int64_t end, uint64_t peer = 0, uint64_t number = 0) {
  return {.kind = kind, .begin = At(begin), .end = At(end), .peer = peer, .number = number};
}

// A recording of one second. The worker's clock is 7 s behind the coordinator's.
Recorded Example() {
  const auto behind = [](Span span) {
    span.begin -= seconds(7);
    span.end -= seconds(7);
    return span;
  };
  ProcessSpans worker{
      .process = {.node = NodeId(3),
                  .name = "worker 0",
                  .host = "a",
                  .pid = 11,
                  .clock = {{.at = At(0) - seconds(7), .offset = seconds(7), .error = microseconds(40)}}},
      .tracks = {{"compute",
                  {behind(Make(Kind::kForward, 100, 200)), behind(Make(Kind::kBackward, 200, 400)),
                   behind(Make(Kind::kPush, 400, 600, 4, 1)), behind(Make(Kind::kWait, 400, 610)),
                   behind(Make(Kind::kPush, 700, 800, 4, 2)), behind(Make(Kind::kForward, -50, -10)),
                   behind(Make(Kind::kForward, 1'000'001, 1'000'002))}}}};
  ProcessSpans server{
      .process = {.node = NodeId(4), .name = "ps 0", .dropped = 2, .missing = "it has not sent all in time"},
      .tracks = {{"apply", {Make(Kind::kApply, 450, 500, 3, 1)}}}};
  return {.begin = At(0),
          .end = At(1'000'000),
          .processes = {{.process = {.name = "coordinator"}, .tracks = {}}, worker, server}};
}

Json Written(const Recorded& recorded, TraceCounts* counts = nullptr) {
  std::string text;
  const auto made = WriteTrace(recorded, [&text](std::string_view piece) { text += piece; });
  if (counts != nullptr) *counts = made;
  return Json::parse(text);
}

std::vector<Json> Events(const Json& trace, const std::string& phase) {
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

// Names of threads, by process and thread.
std::map<std::pair<int, int>, std::string> Rows(const Json& trace) {
  std::map<std::pair<int, int>, std::string> rows;
  for (const Json& event : Events(trace, "M")) {
    if (event["name"] == "thread_name") rows[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  return rows;
}

TEST(Trace, IsOnTheClockOfTheCoordinator) {
  TraceCounts counts;
  const Json trace = Written(Example(), &counts);
  const auto rows = Rows(trace);
  std::map<std::string, std::vector<std::pair<double, double>>> spans;
  for (const Json& event : Events(trace, "X"))
    spans[event["name"].get<std::string>() + " in " + rows.at({event["pid"], event["tid"]})].emplace_back(
        event["ts"], event["dur"]);
  const std::map<std::string, std::vector<std::pair<double, double>>> expected = {
      {"forward in compute", {{100, 100}}},
      {"backward in compute", {{200, 200}}},
      {"wait in compute", {{400, 210}}},
      {"push in push to ps 0", {{400, 200}, {700, 100}}},
      {"apply in apply of worker 0", {{450, 50}}}};
  EXPECT_EQ(spans, expected);
  EXPECT_EQ(counts.spans, 6u);
  EXPECT_EQ(counts.clock_error, Duration(microseconds(40)));
}

TEST(Trace, AnArrowFromEachPushToItsApply) {
  TraceCounts counts;
  const Json trace = Written(Example(), &counts);
  EXPECT_EQ(counts.arrows, 1u);
  EXPECT_EQ(counts.unmatched, 1u);
  const auto from = Events(trace, "s"), to = Events(trace, "f");
  ASSERT_EQ(from.size(), 1u);
  ASSERT_EQ(to.size(), 1u);
  EXPECT_EQ(from[0]["id"], to[0]["id"]);
  EXPECT_EQ(from[0]["ts"], 400);
  EXPECT_EQ(to[0]["ts"], 450);
  EXPECT_EQ(to[0]["bp"], "e");
  const auto rows = Rows(trace);
  EXPECT_EQ(rows.at({from[0]["pid"], from[0]["tid"]}), "push to ps 0");
  EXPECT_EQ(rows.at({to[0]["pid"], to[0]["tid"]}), "apply of worker 0");
}

TEST(Trace, NamesTheProcesses) {
  const Json trace = Written(Example());
  const Json& processes = trace["otherData"]["processes"];
  ASSERT_EQ(processes.size(), 3u);
  EXPECT_EQ(processes[1]["clock_error_us"], 40);
  EXPECT_EQ(processes[1]["clock_offset_us"], 7e6);
  EXPECT_EQ(processes[2]["missing"], "it has not sent all in time");
  EXPECT_EQ(processes[2]["dropped_spans"], 2);
  std::vector<std::string> names;
  for (const Json& event : Events(trace, "M")) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"coordinator", "worker 0 on a, pid 11",
                                             "ps 0: it has not sent all in time"}));
}

// In a row, spans are apart or inside each other.
TEST(Trace, SpansThatOverlapHaveRowsOfTheirOwn) {
  Recorded recorded{
      .begin = At(0), .end = At(1000), .processes = {{.process = {.name = "worker 0"}, .tracks = {}}}};
  recorded.processes[0].tracks = {{"group",
                                   {Make(Kind::kBucket, 10, 50), Make(Kind::kBucket, 20, 60),
                                    Make(Kind::kBucket, 30, 40), Make(Kind::kBucket, 60, 70)}}};
  const Json trace = Written(recorded);
  const auto rows = Rows(trace);
  std::map<double, std::string> by_begin;
  for (const Json& event : Events(trace, "X")) by_begin[event["ts"]] = rows.at({event["pid"], event["tid"]});
  EXPECT_EQ(by_begin, (std::map<double, std::string>{
                          {10, "buckets"}, {20, "buckets (2)"}, {30, "buckets"}, {60, "buckets"}}));
}

TEST(Trace, TextFromPeersIsEscaped) {
  Recorded recorded{
      .begin = At(0),
      .end = At(1000),
      .processes = {{.process = {.name = "worker 0", .host = "\"</script>\n\xff"}, .tracks = {}}}};
  recorded.processes[0].tracks = {{"a\"b", {Make(Kind::kWait, 10, 50)}}};
  const Json trace = Written(recorded);
  EXPECT_EQ(Rows(trace).begin()->second, "a\"b");
}

TEST(Trace, NothingRecorded) {
  const Json trace = Written({.begin = At(0), .end = At(1000), .processes = {}});
  EXPECT_TRUE(trace["traceEvents"].empty());
}

}  // namespace
}  // namespace leat::timeline

#include "show/tensorboard/events.h"

#include <gtest/gtest.h>

#include "show/tensorboard/testing.h"

namespace leat::tensorboard {
namespace {

std::vector<Event> Examples() {
  Summary summary{.scalars = {{"learning/loss", 0.25f}, {"stream/events", 1e9f}},
                  .histograms = {{"updates/staleness",
                                  {.min = 0,
                                   .max = 2,
                                   .count = 3,
                                   .sum = 2,
                                   .sum_squares = 4,
                                   .limits = {0.5, 1.5, 2.5},
                                   .counts = {2, 0, 1}}}},
                  .descriptions = {{"learning/loss", "**of each event**"}}};
  Graph graph{
      .nodes = {
          {.name = "dense1/weight", .op = "variable", .device = "/job:ps/task:1", .shapes = {{784, 10}}},
          {.name = "dense1/matmul",
           .op = "matmul",
           .inputs = {"features", "dense1/weight:1", "^loss"},
           .device = "/job:worker/task:0",
           .attributes = {{"attributes", "transpose_a=true \xff"}},
           .shapes = {{128, 10}, {}}}}};
  return {{.wall_time = 1.5e9, .step = 0, .what = FileVersion{}},
          {.wall_time = 1.5e9, .step = 7, .what = RunStart{}},
          {.wall_time = 1.5e9 + 0.25, .step = 7, .what = std::move(graph)},
          {.wall_time = 1.5e9 + 1, .step = int64_t{1} << 40, .what = std::move(summary)}};
}

TEST(Events, AreReadBack) {
  std::string file;
  for (const Event& event : Examples()) AppendRecord(AsBytes(Encode(event)), &file);
  const auto events = DecodeFile(AsBytes(file), "file");
  ASSERT_TRUE(events.ok()) << events.status().ToString();
  EXPECT_EQ(*events, Examples());
}

// As TensorBoard's own messages are written.
TEST(Events, BytesOfTensorBoard) {
  const std::string bytes("\x09\0\0\0\x60\xb8\x13\xda\x41\x10\x03\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f",
                          26);
  const Event event{.wall_time = 1.75e9, .step = 3, .what = Summary{.scalars = {{"loss", 0.5f}}}};
  EXPECT_EQ(Encode(event), bytes);
  const auto decoded = Decode(AsBytes(bytes));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, event);
}

std::string Refused(const std::string& bytes) {
  const auto event = Decode(AsBytes(bytes));
  EXPECT_FALSE(event.ok());
  return event.ok() ? "" : event.status().message();
}

TEST(Events, OthersAreRefused) {
  v1::Event event;
  EXPECT_EQ(Refused(event.SerializeAsString()), "is none of the events that a run has");
  EXPECT_EQ(Refused("\x09"), "is not an Event");
  event.mutable_session_log();
  EXPECT_EQ(Refused(event.SerializeAsString()), "is none of the events that a run has");
  event.set_graph_def("\x09");
  EXPECT_EQ(Refused(event.SerializeAsString()), "its graph is not a GraphDef");
  auto* value = event.mutable_summary()->add_value();
  value->set_tag("image");
  EXPECT_EQ(Refused(event.SerializeAsString()), "'image' is neither a scalar nor a histogram");
  value->mutable_histo()->add_bucket(1);
  EXPECT_EQ(Refused(event.SerializeAsString()), "a histogram has more limits than counts, or fewer");
  value->mutable_histo()->add_bucket_limit(1);
  EXPECT_TRUE(Decode(AsBytes(event.SerializeAsString())).ok());
  value->mutable_histo()->add_bucket(1);
  value->mutable_histo()->add_bucket_limit(1);
  EXPECT_EQ(Refused(event.SerializeAsString()), "the limits of a histogram do not ascend");
}

TEST(Events, AFileNamesTheRecord) {
  std::string file;
  AppendRecord(AsBytes(Encode(Examples()[0])), &file);
  AppendRecord(AsBytes("\x09"), &file);
  EXPECT_EQ(DecodeFile(AsBytes(file), "a/file").status().message(), "a/file: record 1: is not an Event");
}

}  // namespace
}  // namespace leat::tensorboard

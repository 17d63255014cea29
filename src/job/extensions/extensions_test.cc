#include "job/extensions/extensions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "base/testing.h"
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"
#include "job/testing.h"
#include "stream/source.h"

namespace leat::job {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// y = gain * x
class Gain final : public nn::Layer {
 public:
  explicit Gain(const nn::LayerRequest& request) : Layer(request), row_(request.inputs) {
    nn::AllowSettings(request.settings, {"start"});
    start_ = static_cast<float>(request.settings.Number("start", 1));
  }
  Shape outputs() const override { return row_; }
  std::vector<optim::VariableSpec> variables() const override {
    return {{name() + "/gain", row_, {.kind = optim::InitKind::kConstant, .value = start_}}};
  }
  nn::Flow Apply(graph::Graph& graph, const nn::Flow& in, std::span<const graph::Value> variables,
                 nn::StepContext&) const override {
    return {graph.Make<ops::Mul>({in.x, variables[0]}), in.lengths};
  }

 private:
  Shape row_;
  float start_ = 1;
};

std::unique_ptr<stream::Source> OpenWords(const SourceRequest& request) {
  request.settings.Allow({"words", "broken"});
  if (request.settings.Bool("broken", false)) throw std::runtime_error("the dictionary is lost");
  const auto count = static_cast<size_t>(request.settings.Integer("words", 6, 1, 100));
  return stream::MakeMemorySource(std::vector<std::string>(count, "1"), 2);
}

std::vector<uint32_t> LastServer(const protocol::SliceTable& table, uint32_t servers) {
  return std::vector<uint32_t>(table.slices.size(), servers - 1);
}

Extensions All() {
  return {.layers = {{"gain", nn::Make<Gain>, true}},
          .sources = {{"words", OpenWords}},
          .placements = {{"last", LastServer}}};
}

constexpr const char* kOwnJob = R"(name: own
stream: {source: {words: {words: 7}}}
schema: {format: csv, fields: {x: {type: number}}}
model:
  layers:
    - gain: {start: 2}
    - dense: {units: 1}
  loss: negative_sum
optimizer: {type: sgd, learning_rate: 0.1}
cluster: {ps: 2, placement: last}
)";

class ExtensionsTest : public ::testing::Test {
 protected:
  ExtensionsTest() { UseExtensions(All()); }
  ~ExtensionsTest() override { UseExtensions({}); }
};

TEST_F(ExtensionsTest, AJobNamesALayer) {
  const Job job = Parse(kOwnJob);
  ASSERT_EQ(job.model->variables().size(), 3u);
  EXPECT_EQ(job.model->variables()[0].name, "gain1/gain");
  EXPECT_EQ(job.model->variables()[0].init.value, 2);
  EXPECT_THAT(MistakeIn(Replaced(kOwnJob, "start", "stert")), StartsWith("job.yaml:6: "));
  EXPECT_THAT(MistakeIn(Replaced(kOwnJob, "gain:", "gian:")), HasSubstr("did you mean 'gain'?"));
}

TEST_F(ExtensionsTest, ALayerIsNestedInOthers) {
  const Job job = Parse(
      Replaced(kOwnJob, "- gain: {start: 2}", "- residual: {layers: [gain, residual: {layers: [gain]}]}"));
  EXPECT_EQ(job.model->variables()[0].name, "residual1/gain1/gain");
  EXPECT_EQ(job.model->variables()[1].name, "residual1/residual1/gain1/gain");
  EXPECT_THAT(MistakeIn(Replaced(kOwnJob, "gain: {start: 2}", "residual: {layers: [onnx: {file: a}]}")),
              HasSubstr("unknown layer 'onnx'"));
}

TEST_F(ExtensionsTest, AJobNamesASource) {
  const Job job = Parse(kOwnJob);
  EXPECT_EQ(job.stream->Describe(), "source 'words'");
  auto source = job.stream->Open();
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_THAT(*(*source)->Ranges(),
              ElementsAre(stream::PartitionRange{0, 0, 3, true}, stream::PartitionRange{1, 0, 4, true}));
  EXPECT_TRUE(Parse(Replaced(kOwnJob, "{words: {words: 7}}", "words")).stream->Open().ok())
      << "without settings";
  EXPECT_TRUE(Parse(Replaced(kOwnJob, "{words: 7}", "")).stream->Open().ok());
  EXPECT_FALSE(job.stream->OpenWriter().ok());
  EXPECT_THAT(MistakeIn(Replaced(kOwnJob, "{words: {words: 7}}", "{word: {words: 7}}")),
              AllOf(StartsWith("job.yaml:2: unknown source 'word'"), HasSubstr("'words'")));
  EXPECT_THAT(MistakeIn(Replaced(kOwnJob, "{words: {words: 7}}", "{sentences: {}}")), HasSubstr("words"));
  EXPECT_THAT(MistakeIn(Replaced(kOwnJob, "{words: {words: 7}}", "[words]")),
              HasSubstr("source is the name"));
  EXPECT_THAT(MistakeIn(Replaced(kOwnJob, "source: {", "live: true, source: {")),
              HasSubstr("'live' is for a topic"));
}

TEST_F(ExtensionsTest, WhatASourceThrowsIsTheErrorOfOpening) {
  const auto opening = [](const std::string& settings) {
    return Parse(Replaced(kOwnJob, "words: 7", settings)).stream->Open().status();
  };
  EXPECT_THAT(opening("words: 0").message(), StartsWith("job.yaml:2: words is 0"));
  EXPECT_EQ(opening("words: 0").code(), Code::kInvalidArgument);
  EXPECT_EQ(opening("broken: true").message(), "source 'words': the dictionary is lost");
  EXPECT_EQ(opening("broken: true").code(), Code::kUnavailable);
  auto none = All();
  none.sources["words"] = [](const SourceRequest&) { return nullptr; };
  UseExtensions(none);
  EXPECT_EQ(opening("words: 1").message(), "source 'words': its function returned none");
}

TEST_F(ExtensionsTest, AJobResumesWithTheSameSettingsOfItsSource) {
  EXPECT_EQ(Parse(kOwnJob).Hash(), Parse(kOwnJob).Hash());
  EXPECT_NE(Parse(kOwnJob).Hash(), Parse(Replaced(kOwnJob, "words: 7", "words: 8")).Hash());
}

TEST_F(ExtensionsTest, AJobNamesAPlacement) {
  const auto plan = Parse(kOwnJob).PlacementPlan();
  ASSERT_EQ(plan.servers.size(), 2u);
  EXPECT_EQ(plan.servers[0].bytes, 0u);
  EXPECT_GT(plan.servers[1].bytes, 0u);
  EXPECT_EQ(
      Parse(Replaced(kOwnJob, "placement: last", "placement: {type: last}")).PlacementPlan().servers[0].bytes,
      0u);
  EXPECT_THAT(MistakeIn(Replaced(kOwnJob, "placement: last", "placement: first")),
              HasSubstr("unknown placement 'first'"));
  EXPECT_THAT(MistakeIn(Replaced(kOwnJob, "placement: last", "placement: {type: last, exclude: [0]}")),
              HasSubstr("exclude has no effect with a placement function"));
}

TEST_F(ExtensionsTest, AProgramWithoutThemSaysSo) {
  UseExtensions({});
  EXPECT_EQ(
      MistakeIn(kOwnJob),
      "job.yaml:2: unknown source 'words': this program has none of its own; run the one that defines it");
  const std::string topic = Replaced(kOwnJob, "source: {words: {words: 7}}", "topic: t");
  EXPECT_THAT(MistakeIn(topic), AllOf(StartsWith("job.yaml:6: unknown layer 'gain'"), HasSubstr("dense")));
  EXPECT_THAT(MistakeIn(Replaced(topic, "gain: {start: 2}", "tanh")),
              AllOf(StartsWith("job.yaml:10: unknown placement 'last'"), HasSubstr("greedy")));
}

TEST_F(ExtensionsTest, TheVersionNamesThem) {
  EXPECT_EQ(OwnExtensions().InVersion(), "+layer.gain+source.words+placement.last");
  auto second = All();
  second.version = "2";
  EXPECT_EQ(second.InVersion(), "+layer.gain+source.words+placement.last+2");
  EXPECT_EQ(Extensions().InVersion(), "");
}

TEST_F(ExtensionsTest, NamesAreChecked) {
  const auto mistake = [](const Extensions& extensions) {
    return Mistake([&] { UseExtensions(extensions); });
  };
  const auto gain = nn::Make<Gain>;
  EXPECT_EQ(mistake({.layers = {{"dense", gain}}}),
            "layer 'dense' of this program: there is a layer of this name");
  EXPECT_THAT(mistake({.layers = {{"onnx", gain}}}), HasSubstr("there is a layer"));
  EXPECT_THAT(mistake({.layers = {{"gain", gain}, {"gain", gain}}}), HasSubstr("there is a layer"));
  EXPECT_THAT(mistake({.layers = {{"a/b", gain}}}), HasSubstr("a name has 1 to 40 letters"));
  EXPECT_THAT(mistake({.layers = {{"gain", nullptr}}}), HasSubstr("its function is missing"));
  EXPECT_THAT(mistake({.sources = {{"", OpenWords}}}), HasSubstr("a name has 1 to 40 letters"));
  EXPECT_THAT(mistake({.sources = {{"words", nullptr}}}), HasSubstr("its function is missing"));
  EXPECT_THAT(mistake({.placements = {{"greedy", LastServer}}}),
              HasSubstr("there is a placement of this name"));
  EXPECT_THAT(mistake({.placements = {{"last", nullptr}}}), HasSubstr("its function is missing"));
  EXPECT_THAT(mistake({.version = "a b"}), HasSubstr("version 'a b'"));
  Extensions many;
  for (int i = 0; i < 20; ++i) many.sources[std::string(30, 'a') + std::to_string(i)] = OpenWords;
  EXPECT_THAT(mistake(many), HasSubstr("more than 512 letters"));
  EXPECT_EQ(OwnExtensions().InVersion(), All().InVersion()) << "of the last good ones";
}

}  // namespace
}  // namespace leat::job

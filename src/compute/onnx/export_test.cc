// Exported files compute the same when they are imported again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/rng.h"
#include "compute/engine/plan.h"
#include "compute/graph/builtin.h"
#include "compute/kernels/reference/reference.h"
#include "compute/onnx/export.h"
#include "compute/onnx/network.h"
#include "compute/onnx/onnx.pb.h"
#include "compute/onnx/write/writer.h"
#include "compute/optim/moments.h"

namespace leat::onnx {
namespace {

using ::testing::HasSubstr;

nn::Model ModelOf(const std::string& yaml, const std::vector<uint32_t>& running = {}) {
  return nn::Model::FromConfig(Config::Parse(yaml, "job.yaml"),
                               {.running = running, .files = {.data = LEAT_GOLDENS}, .kinds = LayerKinds()});
}

std::vector<std::vector<float>> Initial(const nn::Model& model) {
  std::vector<std::vector<float>> values;
  Rng rng(5);
  for (const auto& spec : model.variables()) {
    values.emplace_back(static_cast<size_t>(spec.shape.elements()));
    optim::Initialise(spec.init, 1, spec.name, 0, values.back());
    // Avoid parameters of 0 and 1, which hide errors. Variances stay positive.
    for (auto& value : values.back()) value += static_cast<float>(0.1 + 0.1 * rng.Uniform());
    // Words are no numbers. The first feature has no deviation.
    for (size_t i = 0; spec.role == optim::VariableRole::kMoments && i < values.back().size() / 6; ++i)
      optim::PutMoments(values.back(), i, {5 + i, rng.Uniform(), i == 0 ? 0 : rng.Uniform()});
  }
  return values;
}

// The result of `apply(graph, x, variables, step)` for the given rows.
template <class Apply>
std::vector<float> Run(Apply apply, const Shape& row, std::span<const std::vector<float>> values,
                       std::span<const optim::VariableSpec> specs, std::vector<float> inputs, uint32_t rows) {
  graph::Graph graph;
  std::vector<int64_t> sizes = {rows};
  sizes.insert(sizes.end(), row.sizes().begin(), row.sizes().end());
  const auto leaf = [&](DType type, const Shape& shape) {
    return graph.Make<graph::Placeholder>({}, TensorType{type, shape});
  };
  const auto x = leaf(DType::kF32, Shape(std::span<const int64_t>(sizes)));
  nn::StepContext step{.training = false,
                       .weights = leaf(DType::kF32, Shape{rows}),
                       .random_seed = leaf(DType::kI64, Shape{}),
                       .statistics = {}};
  std::vector<graph::Value> variables;
  for (const auto& spec : specs) {
    variables.push_back(graph.Make<graph::Variable>({}, TensorType{DType::kF32, spec.shape}));
  }
  const graph::Value y = apply(graph, x, variables, step);
  engine::PlanOptions options;
  options.tables = {&reference::Kernels()};
  const auto plan = engine::Plan::Compile(graph, std::vector<graph::Value>{y}, options);
  plan->Bind(x, inputs.data());
  std::vector<float> ones(rows, 1);
  if (std::ranges::find(plan->feeds(), step.weights) != plan->feeds().end())
    plan->Bind(step.weights, ones.data());
  std::vector<std::vector<float>> memory(values.begin(), values.end());
  for (size_t v = 0; v < variables.size(); ++v) plan->Bind(variables[v], memory[v].data());
  plan->Run();
  const auto out = plan->At(y).as<const float>();
  return {out.begin(), out.end()};
}

std::vector<float> RunModel(const nn::Model& model, const std::vector<std::vector<float>>& values,
                            const std::vector<float>& inputs, uint32_t rows) {
  const auto apply = [&](auto& graph, auto x, auto& variables, auto& step) {
    return model.Apply(graph, x, variables, step);
  };
  return Run(apply, model.input_shape(), values, model.variables(), inputs, rows);
}

// Imports an exported file as a layer of a job does.
std::vector<float> RunAgain(const std::string& bytes, const nn::Model& model,
                            const std::vector<float>& inputs, uint32_t rows) {
  const auto network = Network::Import(bytes, "written.onnx", {.output = "", .row = model.input_shape()});
  const auto specs = network->variables("n");
  std::vector<std::vector<float>> values;
  for (const auto& spec : specs) values.push_back(*spec.init.given);
  const auto apply = [&](auto& graph, auto x, auto& variables, auto& step) {
    return network->Apply(graph, x, variables, step);
  };
  return Run(apply, model.input_shape(), values, specs, inputs, rows);
}

struct Example {
  std::string name, inputs, layers;
  uint32_t ids = 0;
  friend void PrintTo(const Example& example, std::ostream* out) { *out << example.layers; }
};

std::string Yaml(const Example& example) {
  return "inputs: " + example.inputs + "\nlayers: " + example.layers + "\nloss: negative_sum\n";
}

const Example kExamples[] = {
    {"mlp", "5",
     "[dense: {units: 4, activation: relu}, dense: {units: 3, activation: tanh}, dense: {units: 2}]"},
    {"lenet", "[12, 10, 1]",
     "[conv2d: {filters: 4, kernel: 5, padding: same, activation: relu}, max_pool, conv2d: {filters: 6, "
     "kernel: 3}, "
     "batch_norm, relu, avg_pool: {size: 2, strides: 1}, flatten, dense: {units: 10}]"},
    {"images", "[7, 6, 4]",
     "[conv2d: {filters: 6, kernel: [3, 2], strides: 2, padding: same, groups: 2, use_bias: false}, silu, "
     "conv2d_transpose: {filters: 3, kernel: 3, strides: 2, padding: 1, output_padding: 1}, gelu, "
     "residual: {layers: [conv2d: {filters: 3, kernel: 3, padding: same, dilation: 1}]}, global_avg_pool, "
     "dense: {units: 2}]"},
    {"globalmax", "[4, 5, 3]", "[global_max_pool, dense: {units: 2, activation: sigmoid}]"},
    {"norms", "[3, 4]",
     "[layer_norm: {epsilon: 0.001}, batch_norm, dropout: {rate: 0.5}, residual: {layers: [dense: {units: "
     "4}]}, "
     "reshape: {shape: [2, 6]}, softmax]"},
    {"lstm", "6",
     "[embedding: {size: 9, units: 4}, lstm: {units: 5}, lstm: {units: 3, return: last}, dense: {units: 2}]",
     9},
    {"lengths", "6", "[embedding: {size: 9, units: 4, padding: 0}, lstm: {units: 5, return: last}]", 9},
    {"gru", "6",
     "[embedding: {size: 9, units: 4}, gru: {units: 5, bidirectional: true}, gru: {units: 3, "
     "linear_before_reset: false, return: last}]",
     9},
    {"rnn", "[4, 3]", "[rnn: {units: 5, reverse: true, activation: relu}, rnn: {units: 2}]"},
    {"attention", "5",
     "[embedding: {size: 9, units: 8}, position, attention: {heads: 2, causal: true}, layer_norm, dense: "
     "{units: 3}]",
     9},
    {"mixed", "6", "[onnx: {file: mlp.onnx}, dense: {units: 2}]"},
    {"imported_images", "[6, 6, 1]", "[onnx: {file: keras.onnx, output: r1}, flatten, dense: {units: 2}]"},
};

std::vector<float> Inputs(const Example& example, const nn::Model& model, uint32_t rows) {
  Rng rng(3);
  std::vector<float> inputs(size_t{rows} * model.inputs());
  for (auto& x : inputs) {
    x = example.ids > 0 ? static_cast<float>(rng.Below(example.ids))
                        : static_cast<float>(rng.Uniform() * 2 - 1);
  }
  return inputs;
}

// Converts rows with channels last to the file's layout.
std::vector<float> ChannelsFirst(const std::vector<float>& rows, const Shape& row) {
  const auto pixels = static_cast<size_t>(row[0] * row[1]), channels = static_cast<size_t>(row[2]);
  std::vector<float> out(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t image = i / (pixels * channels), pixel = i / channels % pixels, channel = i % channels;
    out[(image * channels + channel) * pixels + pixel] = rows[i];
  }
  return out;
}

class ExportTest : public ::testing::TestWithParam<Example> {};

TEST_P(ExportTest, ReadAgainItComputesTheSame) {
  const auto model = ModelOf(Yaml(GetParam()));
  const auto values = Initial(model);
  for (const int64_t batch : {int64_t{0}, int64_t{2}}) {
    const auto bytes = Export(model, values, {.batch = batch, .name = "test"});
    for (const uint32_t rows : {1u, 2u, 4u}) {
      const auto inputs = Inputs(GetParam(), model, rows);
      const auto expected = RunModel(model, values, inputs, rows);
      const auto made = RunAgain(bytes, model, inputs, rows);
      ASSERT_EQ(made.size(), expected.size());
      for (size_t i = 0; i < made.size(); ++i)
        EXPECT_NEAR(made[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i]))) << i;
    }
    // To check the files with other programs (tests/goldens/onnx/check.py).
    if (const char* folder = std::getenv("LEAT_KEEP_ONNX"); folder != nullptr) {
      const std::string path = std::string(folder) + "/" + GetParam().name + (batch == 0 ? "" : "_fixed");
      std::ofstream(path + ".onnx", std::ios::binary) << bytes;
      const auto inputs = Inputs(GetParam(), model, 2);
      std::ofstream(path + ".json") << nlohmann::json{{"inputs", inputs},
                                                      {"outputs", RunModel(model, values, inputs, 2)}};
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExportTest, ::testing::ValuesIn(kExamples),
                         [](const auto& i) { return i.param.name; });

// Every value is computed before it is used, every value is used, and no node is for training only.
void ExpectInferenceForm(const proto::GraphProto& graph, int inputs) {
  std::set<std::string> made = {""}, read;
  ASSERT_EQ(graph.input_size(), inputs);
  for (const auto& input : graph.input()) made.insert(input.name());
  for (const auto& tensor : graph.initializer()) made.insert(tensor.name());
  for (const auto& node : graph.node()) {
    for (const auto& name : node.input()) {
      EXPECT_TRUE(made.contains(name)) << node.op_type() << " reads " << name;
      read.insert(name);
    }
    made.insert(node.output().begin(), node.output().end());
    if (node.op_type() == "Dropout") {
      EXPECT_LE(node.input_size(), 2);
    }
    if (node.op_type() == "Dropout" || node.op_type() == "BatchNormalization") {
      EXPECT_EQ(node.output_size(), 1);
      for (const auto& attribute : node.attribute()) EXPECT_NE(attribute.name(), "training_mode");
    }
  }
  ASSERT_EQ(graph.output_size(), 1);
  EXPECT_TRUE(made.contains(graph.output(0).name()));
  read.insert(graph.output(0).name());
  for (const auto& name : made) EXPECT_TRUE(read.contains(name) || name.empty()) << name << " is not read";
}

// The saved moments become constants, and those of the batch go.
TEST(Export, ARunningScaleIsConstants) {
  for (const Example& example :
       {Example{"", "5", "[dense: {units: 4, activation: tanh}, dense: {units: 2}]"},
        Example{"", "[4, 3, 2]", "[conv2d: {filters: 3, kernel: 2}, flatten, dense: {units: 2}]"},
        Example{"", "6", "[onnx: {file: mlp.onnx}]"}}) {
    SCOPED_TRACE(example.layers);
    const auto model = ModelOf(Yaml(example), {0, 1, 4});
    const auto values = Initial(model);
    for (const int64_t batch : {int64_t{0}, int64_t{2}}) {
      const auto bytes = Export(model, values, {.batch = batch, .name = "test"});
      proto::ModelProto file;
      ASSERT_TRUE(file.ParseFromString(bytes));
      ExpectInferenceForm(file.graph(), 1);
      for (const uint32_t rows : {1u, 2u, 4u}) {
        const auto inputs = Inputs(example, model, rows);
        const auto expected = RunModel(model, values, inputs, rows);
        const auto made = RunAgain(bytes, model, inputs, rows);
        ASSERT_EQ(made.size(), expected.size());
        for (size_t i = 0; i < made.size(); ++i)
          EXPECT_NEAR(made[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i]))) << i;
        // Not trivial.
        auto others = values;
        optim::PutMoments(others[0], 1, {5, 3, 1});
        if (rows == 4) {
          EXPECT_NE(RunModel(model, others, inputs, rows), expected);
        }
      }
    }
  }
}

// The original nodes and names with other weights.
TEST(ExportImported, IsTheFileThatItCameFrom) {
  const auto model = ModelOf("inputs: [6, 6, 1]\nlayers: [onnx: {file: keras.onnx}]\nloss: negative_sum\n");
  auto values = Initial(model);
  const auto bytes = Export(model, values, {});
  proto::ModelProto before, after;
  std::ifstream in(std::string(LEAT_GOLDENS) + "/keras.onnx", std::ios::binary);
  ASSERT_TRUE(before.ParseFromIstream(&in));
  ASSERT_TRUE(after.ParseFromString(bytes));
  ASSERT_EQ(after.graph().node_size(), before.graph().node_size());
  for (int i = 0; i < after.graph().node_size(); ++i) {
    EXPECT_EQ(after.graph().node(i).SerializeAsString(), before.graph().node(i).SerializeAsString());
  }
  EXPECT_NE(after.graph().initializer(0).raw_data(), before.graph().initializer(0).raw_data());
  const auto again = Network::Import(bytes, "again.onnx", {.output = "", .row = {6, 6, 1}});
  const auto variables = again->variables("onnx1");
  ASSERT_EQ(variables.size(), values.size());
  for (size_t v = 0; v < values.size(); ++v) EXPECT_EQ(*variables[v].init.given, values[v]);
}

TEST(ExportImported, AFileMadeForTrainingBecomesOneThatScores) {
  for (const auto& [name, row] : {std::pair{"dropout", "6"}, std::pair{"norms_training", "[8, 9, 3]"}}) {
    SCOPED_TRACE(name);
    const auto model = ModelOf("inputs: " + std::string(row) + "\nlayers: [onnx: {file: " + name +
                               ".onnx}]\nloss: negative_sum\n");
    proto::ModelProto before, after;
    std::ifstream in(std::string(LEAT_GOLDENS) + "/" + name + ".onnx", std::ios::binary);
    ASSERT_TRUE(before.ParseFromIstream(&in));
    const bool training = std::ranges::any_of(before.graph().node(), [](const proto::NodeProto& node) {
      return (node.op_type() == "Dropout" && node.input_size() == 3) ||
             (node.op_type() == "BatchNormalization" && node.output_size() == 3);
    });
    ASSERT_TRUE(training) << "the file must have something to rewrite";
    const auto values = Initial(model);
    const auto bytes = Export(model, values, {});
    ASSERT_TRUE(after.ParseFromString(bytes));
    ExpectInferenceForm(after.graph(), 1);
    const Example example{name, row, ""};
    const auto inputs = Inputs(example, model, 3);
    const auto expected = RunModel(model, values, inputs, 3);
    const auto made = RunAgain(bytes, model, inputs, 3);
    ASSERT_EQ(made.size(), expected.size());
    for (size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i], expected[i]) << i;
    if (const char* folder = std::getenv("LEAT_KEEP_ONNX"); folder != nullptr) {
      const std::string path = std::string(folder) + "/" + name;
      std::ofstream(path + ".onnx", std::ios::binary) << bytes;
      auto rows = Inputs(example, model, 2);
      if (model.input_shape().rank() == 3) rows = ChannelsFirst(rows, model.input_shape());
      std::ofstream(path + ".json") << nlohmann::json{
          {"inputs", rows}, {"outputs", RunModel(model, values, Inputs(example, model, 2), 2)}};
    }
  }
}

// Training-only outputs are removed, with everything that depends on them or exists only for them.
TEST(InferenceForm, WhatIsThereForTrainingAloneGoes) {
  proto::ModelProto file;
  auto* graph = file.mutable_graph();
  const auto node = [graph](const char* op, std::vector<std::string> inputs,
                            std::vector<std::string> outputs) {
    auto* made = graph->add_node();
    made->set_op_type(op);
    made->mutable_input()->Assign(inputs.begin(), inputs.end());
    made->mutable_output()->Assign(outputs.begin(), outputs.end());
    return made;
  };
  for (const char* name : {"x", "training"}) graph->add_input()->set_name(name);
  for (const char* name : {"scale", "bias", "mean", "variance", "ratio"})
    graph->add_initializer()->set_name(name);
  auto* norm =
      node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"n", "mean2", "variance2"});
  auto* mode = norm->add_attribute();
  mode->set_name("training_mode");
  mode->set_i(1);
  node("Not", {"training"}, {"no"});
  node("Not", {"no"}, {"yes"});
  node("Dropout", {"n", "ratio", "yes"}, {"y", "mask"});
  node("Cast", {"mask"}, {"share"});
  node("ReduceMean", {"mean2"}, {"monitored"});
  node("Adagrad", {"x"}, {"updated"})->set_domain("ai.onnx.preview.training");
  for (const char* name : {"y", "mean2", "monitored", "share", "updated"})
    graph->add_output()->set_name(name);
  *file.add_training_info() = "steps";

  auto copy = file;
  ToInferenceForm(&copy);
  ExpectInferenceForm(copy.graph(), 1);
  EXPECT_EQ(copy.graph().node_size(), 2);
  EXPECT_EQ(copy.graph().output(0).name(), "y");
  EXPECT_EQ(copy.training_info_size(), 0);
  // A file in inference form is unchanged.
  const std::string once = copy.SerializeAsString();
  ToInferenceForm(&copy);
  EXPECT_EQ(copy.SerializeAsString(), once);

  file.mutable_graph()->mutable_output(0)->set_name("share");
  EXPECT_THROW(ToInferenceForm(&file), std::invalid_argument);
}

// Frozen values are initializers under their own names, and the network computes the model's outputs.
TEST(Export, WritesFrozenLayers) {
  const auto model = ModelOf(
      "inputs: 5\nlayers: [dense: {units: 4, activation: tanh, trainable: false}, batch_norm: {trainable: "
      "false}, "
      "dense: {units: 3}]\nloss: softmax_cross_entropy\n");
  const auto values = Initial(model);
  const std::string bytes = Export(model, values, {});
  proto::ModelProto file;
  ASSERT_TRUE(file.ParseFromString(bytes));
  std::set<std::string> names;
  for (const auto& tensor : file.graph().initializer()) names.insert(tensor.name());
  EXPECT_TRUE(names.contains("dense1/weight") && names.contains("dense2/weight"));

  const std::vector<float> rows = {1, -2, 3, 0.5f, 0, 0, 1, 1, -1, 2};
  const auto expected = RunModel(model, values, rows, 2), found = RunAgain(bytes, model, rows, 2);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << i;
}

// A file keeps its treatments of parameters when it is exported, except of lost ones.
TEST(Export, KeepsWhatTheFileSays) {
  proto::ModelProto file;
  std::ifstream in(std::string(LEAT_GOLDENS) + "/norms_training.onnx", std::ios::binary);
  ASSERT_TRUE(file.ParseFromIstream(&in));
  for (const auto& tensor : file.graph().initializer()) {
    auto* entry = file.add_metadata_props();
    entry->set_key(std::string(kTreatmentKey) + tensor.name());
    entry->set_value("constant");
  }
  const int all = file.metadata_props_size();
  auto* ratio = file.mutable_graph()->add_initializer();
  ratio->set_name("only in training");
  auto* entry = file.add_metadata_props();
  entry->set_key(std::string(kTreatmentKey) + ratio->name());
  entry->set_value("constant");
  auto* node = file.mutable_graph()->add_node();
  node->set_op_type("Adagrad");
  node->set_domain("ai.onnx.preview.training");
  node->add_input(ratio->name());
  node->add_output("updated");
  ToInferenceForm(&file);
  EXPECT_EQ(file.metadata_props_size(), all);
}

TEST(Export, SaysWhatCannotBeWritten) {
  const auto model = ModelOf(
      "inputs: 5\nlayers: [embedding: {size: 9, units: 8, padding: 0}, attention: {heads: 2}]\nloss: "
      "negative_sum\n");
  try {
    Export(model, Initial(model), {});
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("attention"));
    EXPECT_THAT(error.what(), HasSubstr("lengths"));
  }
}

// The file has both outputs and probabilities.
TEST(Export, HasScoresAsWell) {
  const auto model = ModelOf("inputs: 5\nlayers: [dense: {units: 3}]\nloss: softmax_cross_entropy\n");
  proto::ModelProto file;
  ASSERT_TRUE(file.ParseFromString(Export(model, Initial(model), {})));
  ASSERT_EQ(file.graph().output_size(), 2);
  EXPECT_EQ(file.graph().output(0).name(), "outputs");
  EXPECT_EQ(file.graph().output(1).name(), "scores");
}

}  // namespace
}  // namespace leat::onnx

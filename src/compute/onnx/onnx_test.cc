// Networks imported from PyTorch and Keras: results, training, and rejected files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "compute/engine/plan.h"
#include "compute/graph/graph.h"
#include "compute/kernels/reference/reference.h"
#include "compute/nn/model.h"
#include "compute/onnx/fold.h"
#include "compute/onnx/network.h"
#include "compute/onnx/onnx.pb.h"
#include "compute/ops/ops.h"

namespace leat::onnx {
namespace {

using ::testing::HasSubstr;

const nlohmann::json& Goldens() {
  static const auto goldens =
      nlohmann::json::parse(std::ifstream(std::string(LEAT_GOLDENS) + "/goldens.json"));
  return goldens;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, golden] : Goldens().items()) names.push_back(name);
  return names;
}

std::string ReadGolden(const std::string& name) {
  std::ifstream in(std::string(LEAT_GOLDENS) + "/" + name + ".onnx", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Shape RowOf(const nlohmann::json& golden) {
  const auto sizes = golden.at("row").get<std::vector<int64_t>>();
  return Shape(std::span<const int64_t>(sizes));
}

std::shared_ptr<const Network> Load(const std::string& name, const std::string& output = "") {
  return Network::Import(ReadGolden(name), name + ".onnx",
                         {.output = output, .row = RowOf(Goldens().at(name))});
}

std::string WhyNot(const std::string& bytes, const Shape& row, const std::string& output = "") {
  try {
    Network::Import(bytes, "net.onnx", {.output = output, .row = row});
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "";
}

// A network in its own graph, ready to run.
struct Running {
  Running(const Network& network, const Shape& row, int64_t batch, bool training) {
    std::vector<int64_t> sizes = {batch};
    sizes.insert(sizes.end(), row.sizes().begin(), row.sizes().end());
    const auto leaf = [&](DType type, const Shape& shape) {
      return graph.Make<graph::Placeholder>({}, TensorType{type, shape});
    };
    x = leaf(DType::kF32, Shape(std::span<const int64_t>(sizes)));
    weights = leaf(DType::kF32, Shape{batch});
    random_seed = leaf(DType::kI64, Shape{});
    for (const auto& spec : network.variables("net")) {
      variables.push_back(graph.Make<graph::Variable>({}, TensorType{DType::kF32, spec.shape}));
      values.emplace_back(static_cast<size_t>(spec.shape.elements()));
      optim::Initialise(spec.init, 1, spec.name, 0, values.back());
    }
    nn::StepContext step{
        .training = training, .weights = weights, .random_seed = random_seed, .statistics = {}};
    y = network.Apply(graph, x, variables, step);
    statistics = step.statistics;
    engine::PlanOptions options;
    options.tables = {&reference::Kernels()};
    plan = engine::Plan::Compile(graph, std::vector<graph::Value>{y}, options);
    ones.assign(static_cast<size_t>(batch), 1);
    plan->Bind(weights, ones.data());
    plan->Bind(random_seed, &seed);
    for (size_t v = 0; v < variables.size(); ++v) plan->Bind(variables[v], values[v].data());
  }

  std::vector<float> operator()(std::vector<float> inputs) {
    plan->Bind(x, inputs.data());
    plan->Run();
    const auto out = plan->At(y).as<const float>();
    return {out.begin(), out.end()};
  }

  graph::Graph graph;
  graph::Value x, weights, random_seed, y;
  std::vector<graph::Value> variables;
  std::vector<std::vector<float>> values;
  std::vector<std::pair<graph::Value, graph::Value>> statistics;
  std::vector<float> ones;
  int64_t seed = 7;
  std::unique_ptr<engine::Plan> plan;
};

class GoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, ComputesWhatItsMakerDoes) {
  const auto& golden = Goldens().at(GetParam());
  const auto network = Load(GetParam());
  Running running(*network, RowOf(golden), golden.at("rows"), false);
  const auto made = running(golden.at("inputs"));
  const auto expected = golden.at("outputs").get<std::vector<float>>();
  ASSERT_EQ(made.size(), expected.size());
  for (size_t i = 0; i < made.size(); ++i) {
    EXPECT_NEAR(made[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i]))) << i;
  }
}

TEST_P(GoldenTest, RowsDoNotDependOnTheirBatch) {
  const auto& golden = Goldens().at(GetParam());
  const auto network = Load(GetParam());
  const auto inputs = golden.at("inputs").get<std::vector<float>>();
  const size_t rows = golden.at("rows"), row = inputs.size() / rows;
  Running whole(*network, RowOf(golden), golden.at("rows"), false), single(*network, RowOf(golden), 1, false);
  const auto together = whole(inputs);
  for (size_t r = 0; r < rows; ++r) {
    const auto from = inputs.begin() + static_cast<long>(r * row);
    const auto alone = single(std::vector<float>(from, from + static_cast<long>(row)));
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(alone[i], together[r * alone.size() + i], 1e-5) << r;
  }
}

// In a job's model: a few steps of gradient descent reduce the loss.
TEST_P(GoldenTest, IsTrainedFurther) {
  const auto& golden = Goldens().at(GetParam());
  std::string row;
  for (const auto& size : golden.at("row")) row += (row.empty() ? "" : ", ") + size.dump();
  const auto config = Config::Parse("inputs: [" + row + "]\nlayers:\n  - onnx: {file: " + GetParam() +
                                        ".onnx}\n  - flatten\nloss: negative_sum\n",
                                    "job.yaml");
  const auto model = nn::Model::FromConfig(config, {.files = {.data = LEAT_GOLDENS}, .kinds = LayerKinds()});
  const uint32_t batch = golden.at("rows");
  const auto step = model.Build(batch);
  std::vector<graph::Value> fetches = step.gradients;
  fetches.push_back(step.loss);
  engine::PlanOptions options;
  options.tables = {&reference::Kernels()};
  const auto plan = engine::Plan::Compile(step.graph, fetches, options);
  std::vector<std::vector<float>> values;
  for (const auto& spec : model.variables()) {
    values.emplace_back(static_cast<size_t>(spec.shape.elements()));
    optim::Initialise(spec.init, 1, spec.name, 0, values.back());
  }
  for (size_t v = 0; v < values.size(); ++v) plan->Bind(step.variables[v], values[v].data());
  auto inputs = golden.at("inputs").get<std::vector<float>>();
  std::vector<float> labels(batch), weights(batch, 1);
  int64_t random_seed = 3;
  plan->Bind(step.features, inputs.data());
  plan->Bind(step.labels, labels.data());
  plan->Bind(step.weights, weights.data());
  plan->Bind(step.random_seed, &random_seed);
  std::vector<float> losses;
  for (int i = 0; i < 5; ++i) {
    plan->Run();
    losses.push_back(plan->At(step.loss).as<const float>()[0]);
    for (size_t v = 0; v < values.size(); ++v) {
      const auto gradient = plan->At(step.gradients[v]).as<const float>();
      const float rate = model.variables()[v].role == optim::VariableRole::kTrained ? 1e-3f : 1;
      for (size_t i2 = 0; i2 < gradient.size(); ++i2) values[v][i2] -= rate * gradient[i2];
    }
  }
  // Probabilities sum to 1 for any weights.
  if (GetParam() == "keras") return;
  EXPECT_LT(losses.back(), losses.front());
}

// Files built by the test, each with one defect.
class Written {
 public:
  Written() {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(13);
    auto* input = model_.mutable_graph()->add_input();
    input->set_name("x");
    auto* tensor = input->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(proto::TensorProto::FLOAT);
    tensor->mutable_shape()->add_dim()->set_dim_param("batch");
    tensor->mutable_shape()->add_dim()->set_dim_value(4);
    model_.mutable_graph()->add_output()->set_name("y");
  }
  proto::NodeProto& Node(const std::string& op, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs) {
    auto* node = model_.mutable_graph()->add_node();
    node->set_op_type(op);
    node->set_name(op + std::to_string(model_.graph().node_size()));
    for (const auto& name : inputs) node->add_input(name);
    for (const auto& name : outputs) node->add_output(name);
    return *node;
  }
  proto::TensorProto& Floats(const std::string& name, const std::vector<int64_t>& sizes, float value = 0.5f) {
    auto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(proto::TensorProto::FLOAT);
    int64_t count = 1;
    for (const int64_t size : sizes) {
      tensor->add_dims(size);
      count *= size;
    }
    for (int64_t i = 0; i < count && i < 4096; ++i) tensor->add_float_data(value);
    return *tensor;
  }
  void Ints(const std::string& name, const std::vector<int64_t>& values) {
    auto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(proto::TensorProto::INT64);
    tensor->add_dims(static_cast<int64_t>(values.size()));
    for (const int64_t value : values) tensor->add_int64_data(value);
  }
  static void Attribute(proto::NodeProto& node, const std::string& name, int64_t value) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(proto::AttributeProto::INT);
    attribute->set_i(value);
  }
  static void Attribute(proto::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(proto::AttributeProto::INTS);
    for (const int64_t value : values) attribute->add_ints(value);
  }
  void Says(const std::string& parameter, const std::string& value) {
    auto* entry = model_.add_metadata_props();
    entry->set_key(std::string(kTreatmentKey) + parameter);
    entry->set_value(value);
  }
  std::string WhyNot(const Shape& row = {4}) const { return onnx::WhyNot(model_.SerializeAsString(), row); }
  std::string bytes() const { return model_.SerializeAsString(); }
  proto::ModelProto& model() { return model_; }

 private:
  proto::ModelProto model_;
};

TEST(Refusal, NamesAllOpsAtOnce) {
  Written file;
  file.Node("NonMaxSuppression", {"x"}, {"a"});
  file.Node("Resize", {"a"}, {"b"});
  file.Node("Relu", {"b"}, {"c"});
  file.Node("Resize", {"c"}, {"d"});
  file.Node("FusedThing", {"d"}, {"y"}).set_domain("com.vendor");
  EXPECT_EQ(file.WhyNot(),
            "net.onnx: has ops of opset 13 that are not supported: NonMaxSuppression (node "
            "'NonMaxSuppression1'), Resize "
            "(node 'Resize2' and 1 more), com.vendor.FusedThing (node 'FusedThing5')");
}

TEST(Refusal, NamesPlaceAndValues) {
  Written file;
  file.Floats("w", {5, 3});
  file.Node("MatMul", {"x", "w"}, {"y"});
  EXPECT_THAT(file.WhyNot(), HasSubstr("net.onnx: node 'MatMul1' (MatMul): [matmul]"));
  EXPECT_THAT(file.WhyNot(), HasSubstr("inner sizes 4 and 5 differ"));
}

TEST(Refusal, OfWhatIsNoFile) {
  EXPECT_EQ(WhyNot("nonsense", {4}), "net.onnx: is not an ONNX file");
  EXPECT_EQ(WhyNot("", {4}), "net.onnx: has no opset; supported: 13 to 21");
}

TEST(Refusal, OfOtherOpsets) {
  for (const int64_t version : {int64_t{12}, int64_t{99}, int64_t{-1}}) {
    Written file;
    file.model().mutable_opset_import(0)->set_version(version);
    file.Node("Relu", {"x"}, {"y"});
    EXPECT_EQ(file.WhyNot(), "net.onnx: uses opset " + std::to_string(version) + "; supported: 13 to 21");
  }
}

TEST(Refusal, OfGraphsThatAreNone) {
  Written cycle;
  cycle.Node("Add", {"x", "b"}, {"a"});
  cycle.Node("Relu", {"a"}, {"b"});
  EXPECT_THAT(cycle.WhyNot(), HasSubstr("node 'Add1' (Add): reads 'b', which is not an input"));
  Written twice;
  twice.Node("Relu", {"x"}, {"y"});
  twice.Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(twice.WhyNot(), "net.onnx: two values are named 'y'");
  Written loose;
  loose.Node("Relu", {"x"}, {"a"});
  EXPECT_EQ(loose.WhyNot(), "net.onnx: output 'y' is not computed by any node");
}

TEST(Refusal, OfTensorsThatAreDamaged) {
  Written small;
  small.Floats("w", {4, 3}).clear_float_data();
  small.Node("MatMul", {"x", "w"}, {"y"});
  EXPECT_EQ(small.WhyNot(), "net.onnx: tensor 'w': has 0 elements; float[4, 3] needs 12");
  Written raw;
  raw.Floats("w", {4, 3}).set_raw_data("123");
  raw.Node("MatMul", {"x", "w"}, {"y"});
  EXPECT_EQ(raw.WhyNot(), "net.onnx: tensor 'w': has 3 bytes; float[4, 3] needs 48");
  Written large;
  large.Floats("w", {int64_t{1} << 30, int64_t{1} << 30});
  large.Node("MatMul", {"x", "w"}, {"y"});
  EXPECT_THAT(large.WhyNot(), HasSubstr("net.onnx: tensor 'w': "));
  Written negative;
  negative.Floats("w", {-4, -3});
  negative.Node("MatMul", {"x", "w"}, {"y"});
  EXPECT_THAT(negative.WhyNot(), HasSubstr("net.onnx: tensor 'w': "));
  Written elsewhere;
  elsewhere.Floats("w", {4, 3}).set_data_location(proto::TensorProto::EXTERNAL);
  elsewhere.Node("MatMul", {"x", "w"}, {"y"});
  EXPECT_THAT(elsewhere.WhyNot(), HasSubstr("tensor 'w': its elements are in another file"));
  Written infinite;
  infinite.Floats("w", {4, 3}, INFINITY);
  infinite.Node("MatMul", {"x", "w"}, {"y"});
  EXPECT_THAT(infinite.WhyNot(), HasSubstr("tensor 'w': weights are not finite"));
}

TEST(Refusal, OfSizesThatOverflow) {
  for (const auto& target : std::vector<std::vector<int64_t>>{{-1, -1},
                                                              {0, 0, 0},
                                                              {-1, INT64_MAX},
                                                              {INT64_MIN, 4},
                                                              {-1, 7},
                                                              {int64_t{1} << 40, int64_t{1} << 40},
                                                              {1, 1, 1, 1, 1, 1, 1, -1}}) {
    Written file;
    file.Ints("shape", target);
    file.Node("Reshape", {"x", "shape"}, {"y"});
    EXPECT_THAT(file.WhyNot(), HasSubstr("node 'Reshape1' (Reshape): ")) << ::testing::PrintToString(target);
  }
}

TEST(Refusal, OfArithmeticThatHasNoResult) {
  struct {
    std::string op;
    int64_t a, b;
    std::string why;
  } const cases[] = {{"Div", 4, 0, "divides by 0"},       {"Mod", 4, 0, "divides by 0"},
                     {"Div", INT64_MIN, -1, "overflows"}, {"Mul", INT64_MAX, 2, "overflows"},
                     {"Add", INT64_MAX, 1, "overflows"},  {"Sub", INT64_MIN, 1, "overflows"},
                     {"Pow", 10, 400, "overflows"}};
  for (const auto& c : cases) {
    Written file;
    file.Ints("a", {c.a});
    file.Ints("b", {c.b});
    file.Node(c.op, {"a", "b"}, {"shape"});
    file.Node("Reshape", {"x", "shape"}, {"y"});
    EXPECT_THAT(file.WhyNot(), ::testing::AllOf(HasSubstr("node '" + c.op + "1'"), HasSubstr(c.why)));
  }
}

TEST(Refusal, OfConstantsWithoutEnd) {
  Written filled;
  filled.Ints("shape", {1 << 20, 1 << 20});
  filled.Node("ConstantOfShape", {"shape"}, {"c"});
  filled.Node("Add", {"x", "c"}, {"y"});
  EXPECT_THAT(filled.WhyNot(), HasSubstr("computes a constant [1048576, 1048576]"));
  Written many;
  many.Ints("shape", {1 << 22});
  for (int i = 0; i < 20; ++i) many.Node("ConstantOfShape", {"shape"}, {"c" + std::to_string(i)});
  std::vector<std::string> all = {"x"};
  for (int i = 0; i < 20; ++i) all.push_back("c" + std::to_string(i));
  many.Node("Sum", all, {"y"});
  EXPECT_THAT(many.WhyNot(), HasSubstr("more than 2^26 elements"));
}

TEST(Refusal, OfIndicesThatAreNotThere) {
  for (const int64_t index : {int64_t{4}, int64_t{-5}, INT64_MAX, INT64_MIN}) {
    Written file;
    file.Ints("i", {index});
    Written::Attribute(file.Node("Gather", {"x", "i"}, {"y"}), "axis", 1);
    EXPECT_THAT(file.WhyNot(), HasSubstr("index " + std::to_string(index)));
  }
  Written axis;
  Written::Attribute(axis.Node("Softmax", {"x"}, {"y"}), "axis", 7);
  EXPECT_EQ(axis.WhyNot(), "net.onnx: node 'Softmax1' (Softmax): axis 7 is out of range for rank 2");
}

TEST(Refusal, OfBatchesThatMix) {
  Written sum;
  Written::Attribute(sum.Node("ReduceSum", {"x"}, {"y"}), "keepdims", 0);
  EXPECT_THAT(sum.WhyNot(), HasSubstr("its first axis must be the batch"));
  Written turned;
  turned.Node("Transpose", {"x"}, {"y"});
  EXPECT_THAT(turned.WhyNot(), HasSubstr("its first axis must be the batch"));
}

// Networks of x[batch, 4] that compute along the batch.
TEST(Refusal, OfNodesThatMixRows) {
  using Write = std::function<void(Written&)>;
  const auto why = [](const Write& write) {
    Written file;
    file.Ints("rows", {0});
    file.Ints("first", {0});
    file.Ints("second", {1});
    file.Ints("end", {INT64_MAX});
    file.Ints("swapped", {4, -1});
    file.Ints("merged", {-1});
    file.Ints("shape", {-1, 4});
    file.Ints("sequence", {-1, 2, 2});
    file.Ints("first_axis", {0});
    file.Floats("weight", {1, 12, 2});
    file.Floats("state", {1, 12, 3});
    write(file);
    return file.WhyNot();
  };
  const std::string mixed = "mixes the rows of a batch; each row must be computed by itself";
  const std::pair<std::string, Write> cases[] = {
      {"ReduceMean2",
       [](Written& file) {
         file.Node("Relu", {"x"}, {"a"});
         Written::Attribute(file.Node("ReduceMean", {"a"}, {"m"}), "axes", std::vector<int64_t>{0});
         file.Node("Sub", {"a", "m"}, {"y"});
       }},
      {"Softmax1", [](Written& file) { Written::Attribute(file.Node("Softmax", {"x"}, {"y"}), "axis", 0); }},
      {"MatMul2",
       [](Written& file) {
         file.Node("Transpose", {"x"}, {"t"});
         file.Node("MatMul", {"x", "t"}, {"s"});
         file.Node("MatMul", {"s", "x"}, {"y"});
       }},
      {"MatMul2",
       [](Written& file) {
         file.Node("Transpose", {"x"}, {"t"});
         file.Node("MatMul", {"t", "x"}, {"s"});
         file.Node("MatMul", {"x", "s"}, {"y"});
       }},
      {"Reshape1",
       [](Written& file) {
         file.Node("Reshape", {"x", "swapped"}, {"t"});
         file.Node("Transpose", {"t"}, {"y"});
       }},
      {"Softmax2",  // over the merged rows
       [](Written& file) {
         file.Node("Reshape", {"x", "merged"}, {"flat"});
         Written::Attribute(file.Node("Softmax", {"flat"}, {"s"}), "axis", 0);
         file.Node("Reshape", {"s", "shape"}, {"y"});
       }},
      {"Slice1",
       [](Written& file) {
         file.Node("Slice", {"x", "first", "second", "first_axis"}, {"top"});
         file.Node("Add", {"x", "top"}, {"y"});
       }},
      {"Gather1",
       [](Written& file) {
         file.Node("Gather", {"x", "rows"}, {"top"});
         file.Node("Add", {"x", "top"}, {"y"});
       }},
      {"LSTM2",  // the batch as time
       [](Written& file) {
         file.Node("Reshape", {"x", "sequence"}, {"s"});
         file.Node("LSTM", {"s", "weight", "state"}, {"y"});
       }},
      {"LogSoftmax2",  // rows are transposed
       [](Written& file) {
         file.Node("Transpose", {"x"}, {"t"});
         file.Node("LogSoftmax", {"t"}, {"s"});
         file.Node("Transpose", {"s"}, {"y"});
       }},
  };
  for (const auto& [node, write] : cases) {
    EXPECT_THAT(why(write), ::testing::AllOf(HasSubstr("node '" + node + "'"), HasSubstr(mixed)));
  }
}

TEST(Refusal, OfConstantsThatAreTheNumberOfRows) {
  Written file;
  file.Ints("rows", {0});
  file.Node("Shape", {"x"}, {"sizes"});
  file.Node("Gather", {"sizes", "rows"}, {"n"});
  Written::Attribute(file.Node("Cast", {"n"}, {"count"}), "to", 1);
  file.Node("Div", {"x", "count"}, {"y"});
  EXPECT_THAT(file.WhyNot(),
              HasSubstr("node 'Div4' (Div): reads 'count', which depends on the number of rows"));
}

// Networks that rearrange the batch, and still compute each row by itself.
TEST(Import, RowsMayMoveTogether) {
  const auto same = [](const std::function<void(Written&)>& write) {
    Written file;
    file.Ints("merged", {-1, 2});
    file.Ints("split", {-1, 2, 2});
    file.Ints("shape", {-1, 4});
    file.Ints("pairs", {2, -1, 4});
    file.Ints("sequence", {2, -1, 2});
    write(file);
    EXPECT_EQ(file.WhyNot(), "");
    const auto network = Network::Import(file.bytes(), "net.onnx", {.output = "", .row = {4}});
    return Running(*network, {4}, 2, false)({1, 2, 3, 4, 5, 6, 7, 8});
  };
  const std::vector<float> halves = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
  const std::vector<float> doubled = {2, 4, 6, 8, 10, 12, 14, 16};
  // The elements of a row as further rows.
  EXPECT_EQ(same([](Written& file) {
              file.Node("Reshape", {"x", "merged"}, {"a"});
              file.Node("Sub", {"a", "a"}, {"b"});
              file.Node("Softmax", {"b"}, {"c"});
              file.Node("Reshape", {"c", "shape"}, {"y"});
            }),
            halves);
  // Time first, merged with the batch, and apart again.
  EXPECT_EQ(same([](Written& file) {
              file.Node("Reshape", {"x", "split"}, {"a"});
              Written::Attribute(file.Node("Transpose", {"a"}, {"b"}), "perm", std::vector<int64_t>{1, 0, 2});
              file.Node("Reshape", {"b", "merged"}, {"c"});
              file.Node("Add", {"c", "c"}, {"d"});
              file.Node("Reshape", {"d", "sequence"}, {"e"});
              Written::Attribute(file.Node("Transpose", {"e"}, {"f"}), "perm", std::vector<int64_t>{1, 0, 2});
              file.Node("Reshape", {"f", "shape"}, {"y"});
            }),
            doubled);
  // Weights that take the type of the data.
  EXPECT_EQ(same([](Written& file) {
              file.Floats("two", {4}, 2);
              file.Node("CastLike", {"two", "x"}, {"factor"});
              file.Node("Mul", {"x", "factor"}, {"y"});
            }),
            doubled);
  // The rows as channels, each with its own mean, as Keras exports layer normalisation.
  const auto normed = same([](Written& file) {
    file.Ints("channels", {1, -1, 4, 1});
    file.Floats("zero", {}, 0);
    file.Floats("one", {}, 1);
    file.Node("Reshape", {"x", "channels"}, {"a"});
    auto& mean = file.Node("ReduceMean", {"a"}, {"mean"});
    Written::Attribute(mean, "axes", std::vector<int64_t>{0, 2, 3});
    Written::Attribute(mean, "keepdims", 0);
    file.Node("Shape", {"mean"}, {"rows"});
    file.Node("Expand", {"zero", "rows"}, {"zeros"});
    file.Node("Expand", {"one", "rows"}, {"ones"});
    file.Node("BatchNormalization", {"a", "ones", "zeros", "mean", "ones"}, {"b"});
    file.Node("Reshape", {"b", "shape"}, {"y"});
  });
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(normed[i], static_cast<float>(i % 4) - 1.5f, 1e-4) << i;
  // Two batches in one, as networks of pairs have them.
  EXPECT_EQ(same([](Written& file) {
              Written::Attribute(file.Node("Concat", {"x", "x"}, {"a"}), "axis", 0);
              file.Node("Relu", {"a"}, {"b"});
              Written::Attribute(file.Node("Split", {"b"}, {"c", "d"}), "axis", 0);
              file.Node("Add", {"c", "d"}, {"y"});
            }),
            doubled);
  EXPECT_EQ(same([](Written& file) {
              Written::Attribute(file.Node("Concat", {"x", "x"}, {"a"}), "axis", 0);
              file.Node("Reshape", {"a", "pairs"}, {"b"});
              auto& sum = file.Node("ReduceMax", {"b"}, {"c"});
              Written::Attribute(sum, "axes", std::vector<int64_t>{0});
              Written::Attribute(sum, "keepdims", 0);
              file.Node("Add", {"c", "x"}, {"y"});
            }),
            doubled);
}

TEST(Import, KnowsTheRowsOfAllOps) {
  for (const auto family : {MathOps(), ShapeOps(), ImageOps(), SequenceOps()})
    for (const auto& row : family) EXPECT_TRUE(KnowsRowsOf(row.op)) << row.op;
  EXPECT_FALSE(KnowsRowsOf("CumSum"));
}

TEST(Refusal, OfNodesWithoutInputs) {
  for (const auto* op :
       {"Dropout", "Relu", "Mul", "Concat", "Conv", "LSTM", "Reshape", "Split", "Gather", "Shape"}) {
    Written file;
    file.Node(op, {}, {"y"});
    EXPECT_THAT(file.WhyNot(), HasSubstr(std::string("node '") + op + "1'")) << op;
  }
}

TEST(Refusal, OfRowsThatDoNotFit) {
  Written file;
  file.Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(file.WhyNot({5}), "net.onnx: input 'x' needs rows of [4], not [5]");
  EXPECT_EQ(file.WhyNot({2, 2}), "");
}

TEST(Refusal, ShowsNamesAsTheyCanBeShown) {
  Written file;
  auto& node = file.Node("Bad\nop", {"x"}, {"y"});
  node.set_name("\x1b[31m" + std::string(1000, 'a'));
  EXPECT_LT(file.WhyNot().size(), 300u);
}

// A weighted sum of squares, times a whole number that takes the type of the input.
TEST(Import, ReducesSquaresAndCastsLikeOthers) {
  Written file;
  file.Floats("w", {4}, 2);
  file.Ints("three", {3});
  file.Node("Mul", {"x", "w"}, {"scaled"});
  auto& sum = file.Node("ReduceSumSquare", {"scaled"}, {"sum"});
  Written::Attribute(sum, "axes", std::vector<int64_t>{1});
  Written::Attribute(sum, "keepdims", 1);
  file.Node("CastLike", {"three", "x"}, {"factor"});
  file.Node("Mul", {"sum", "factor"}, {"y"});
  const auto network = Network::Import(file.bytes(), "net.onnx", {.output = "", .row = {4}});
  EXPECT_EQ(network->outputs(), Shape{1});
  Running running(*network, {4}, 2, false);
  EXPECT_EQ(running({1, 2, 3, 4, 0, -1, 0, 0.5f}), (std::vector<float>{360, 15}));
}

// The f32 values of x[2, 4], cast from type to type and back to f32.
std::vector<float> CastThrough(Written file, const std::vector<int64_t>& types,
                               const std::vector<float>& inputs) {
  std::string last = "x";
  for (size_t i = 0; i <= types.size(); ++i) {
    const std::string next = i == types.size() ? "y" : "c" + std::to_string(i);
    Written::Attribute(file.Node("Cast", {last}, {next}), "to", i == types.size() ? 1 : types[i]);
    last = next;
  }
  const auto network = Network::Import(file.bytes(), "net.onnx", {.output = "", .row = {4}});
  return Running(*network, {4}, 2, false)(inputs);
}

TEST(Import, CastsToBoolByComparingWithZero) {
  constexpr int64_t kU8 = 2, kI64 = 7, kBool = 9;
  const std::vector<float> inputs = {0.5f, -1, 0, NAN, 300, -0.0f, 3, 1};
  const std::vector<float> truth = {1, 1, 0, 1, 1, 0, 1, 1};
  EXPECT_EQ(CastThrough({}, {kBool}, inputs), truth);
  EXPECT_EQ(CastThrough({}, {kBool, kBool}, inputs), truth);
  EXPECT_EQ(CastThrough({}, {kBool, kU8}, inputs), truth);
  EXPECT_EQ(CastThrough({}, {kI64, kBool}, inputs), (std::vector<float>{0, 1, 0, 0, 1, 0, 1, 1}));
  EXPECT_EQ(CastThrough({}, {kU8, kBool}, inputs), (std::vector<float>{0, 0, 0, 0, 1, 0, 1, 1}));
  EXPECT_EQ(CastThrough({}, {kU8}, inputs), (std::vector<float>{0, 0, 0, 0, 255, 0, 3, 1}));
  Written bools;
  bools.model().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      proto::TensorProto::BOOL);
  EXPECT_EQ(CastThrough(bools, {}, inputs), truth);
}

TEST(Import, CastsLikeBoolsAndLikeBytes) {
  const std::vector<float> inputs = {0.5f, -1, 0, NAN, 300, -0.0f, 3, 1};
  const auto cast_like = [&](proto::TensorProto::DataType type, const std::string& through) {
    Written file;
    auto& like = file.Floats("t", {1});
    like.clear_float_data();
    like.set_data_type(type);
    like.add_int32_data(1);
    file.Ints("three", {3});
    file.Node(through, {"t"}, {"like"});
    file.Node("CastLike", {"x", "like"}, {"a"});
    file.Node("CastLike", {"three", "like"}, {"b"});
    file.Node("CastLike", {"a", "x"}, {"c"});
    file.Node("CastLike", {"b", "x"}, {"d"});
    file.Node("Mul", {"c", "d"}, {"y"});
    const auto network = Network::Import(file.bytes(), "net.onnx", {.output = "", .row = {4}});
    return Running(*network, {4}, 2, false)(inputs);
  };
  const std::vector<float> truth = {1, 1, 0, 1, 1, 0, 1, 1};
  EXPECT_EQ(cast_like(proto::TensorProto::BOOL, "Identity"), truth);
  EXPECT_EQ(cast_like(proto::TensorProto::UINT8, "Identity"), (std::vector<float>{0, 0, 0, 0, 765, 0, 9, 3}));
  EXPECT_EQ(cast_like(proto::TensorProto::BOOL, "Not"), truth);
}

TEST(Refusal, OfCastsToTypesThatAreKeptAsWiderOnes) {
  for (const auto& [number, name] : std::vector<std::pair<int64_t, std::string>>{
           {3, "int8"}, {4, "uint16"}, {5, "int16"}, {10, "float16"}, {12, "uint32"}, {16, "bfloat16"}}) {
    for (const bool constant : {false, true}) {
      Written file;
      file.Floats("c", {4});
      Written::Attribute(file.Node("Cast", {constant ? "c" : "x"}, {"narrow"}), "to", number);
      Written::Attribute(file.Node("Cast", {"narrow"}, {"wide"}), "to", 1);
      file.Node("Mul", {"x", "wide"}, {"y"});
      EXPECT_THAT(file.WhyNot(), HasSubstr("node 'Cast1' (Cast): to " + name + " is not supported; Leat "));
    }
  }
}

// y, and the gradient of its sum with respect to x, for a row of four.
std::pair<std::vector<float>, std::vector<float>> WithGradient(const Written& file,
                                                               std::vector<float> inputs) {
  const auto network = Network::Import(file.bytes(), "net.onnx", {.output = "", .row = {4}});
  Running running(*network, {4}, 1, true);
  const auto loss = running.graph.Make<ops::ReduceSum>({running.y});
  const auto gradient = graph::Gradients(running.graph, loss, std::vector{running.x})[0];
  engine::PlanOptions options;
  options.tables = {&reference::Kernels()};
  const auto plan = engine::Plan::Compile(running.graph, std::vector{running.y, gradient}, options);
  plan->Bind(running.x, inputs.data());
  for (size_t v = 0; v < running.variables.size(); ++v)
    plan->Bind(running.variables[v], running.values[v].data());
  plan->Run();
  const auto y = plan->At(running.y).as<const float>(), dx = plan->At(gradient).as<const float>();
  return {{y.begin(), y.end()}, {dx.begin(), dx.end()}};
}

void ExpectClose(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-6f * std::abs(expected[i])) << i;
}

// The values and gradients of PyTorch: far out the inner function is 0 or infinite, its logarithm is not.
TEST(Import, LogarithmsOfSigmoidsAndExponentialsStayFinite) {
  Written sigmoid;
  sigmoid.Node("Sigmoid", {"x"}, {"s"});
  sigmoid.Node("Log", {"s"}, {"y"});
  const auto [y, dx] = WithGradient(sigmoid, {-1000, -95, 0, 20});
  ExpectClose(y, {-1000, -95, -0.69314718f, -2.0611537e-9f});
  ExpectClose(dx, {1, 1, 0.5f, 2.0611537e-9f});

  for (const int64_t axis : {1, 2}) {
    Written softmax;
    softmax.Ints("shape", {-1, axis == 1 ? 4 : 1, axis == 1 ? 1 : 4});
    softmax.Ints("row", {-1, 4});
    softmax.Node("Reshape", {"x", "shape"}, {"a"});
    Written::Attribute(softmax.Node("Softmax", {"a"}, {"b"}), "axis", axis);
    softmax.Node("Log", {"b"}, {"c"});
    softmax.Node("Reshape", {"c", "row"}, {"y"});
    ExpectClose(WithGradient(softmax, {-500, 0, 0, -1000}).first,
                {-500.693147f, -0.69314718f, -0.69314718f, -1000.693147f});
  }

  Written sum;
  sum.Node("Neg", {"x"}, {"n"});
  sum.Node("Exp", {"x"}, {"a"});
  sum.Node("Exp", {"n"}, {"b"});
  sum.Node("Add", {"a", "b"}, {"s"});
  sum.Node("Log", {"s"}, {"y"});
  const auto [z, dz] = WithGradient(sum, {-200, 0, 1, 200});
  ExpectClose(z, {200, 0.69314718f, 1.1269280f, 200});
  ExpectClose(dz, {-1, 0, 0.76159416f, 1});

  Written softplus;
  softplus.Floats("one", {}, 1);
  softplus.Node("Exp", {"x"}, {"a"});
  softplus.Node("Add", {"a", "one"}, {"s"});
  softplus.Node("Log", {"s"}, {"y"});
  const auto [p, dp] = WithGradient(softplus, {-20, 0, 1, 200});
  ExpectClose(p, {2.0611537e-9f, 0.69314718f, 1.3132617f, 200});
  ExpectClose(dp, {2.0611537e-9f, 0.5f, 0.73105858f, 1});
}

TEST(Import, APReluIsBelowItsKinkAtZero) {
  Written file;
  file.Floats("slope", {1}, 0.25f);
  file.Node("PRelu", {"x", "slope"}, {"y"});
  const auto [y, dx] = WithGradient(file, {-1, 0, -0.0f, 2});
  EXPECT_EQ(y, (std::vector<float>{-0.25f, 0, 0, 2}));
  EXPECT_EQ(dx, (std::vector<float>{0.25f, 0.25f, 0.25f, 1}));
}

// As PyTorch exports its cosine similarity, distances and standard deviation.
TEST(Import, NormsOfZerosHaveFiniteGradients) {
  Written cosine;
  cosine.Floats("epsilon", {1}, 1e-8f);
  cosine.Floats("b", {4}, 2);
  cosine.Ints("axes", {1});
  cosine.Node("Mul", {"x", "b"}, {"p"});
  cosine.Node("Mul", {"x", "x"}, {"q"});
  cosine.Node("ReduceSum", {"p", "axes"}, {"dot"});
  cosine.Node("ReduceSum", {"q", "axes"}, {"squares"});
  cosine.Node("Sqrt", {"squares"}, {"norm"});
  cosine.Node("Max", {"norm", "epsilon"}, {"divisor"});
  cosine.Node("Div", {"dot", "divisor"}, {"y"});
  ExpectClose(WithGradient(cosine, {0, 0, 0, 0}).second, {2e8f, 2e8f, 2e8f, 2e8f});

  Written distance;
  distance.Floats("two", {}, 2);
  distance.Floats("root", {1}, 0.49999976f);
  distance.Ints("axes", {1});
  distance.Node("Pow", {"x", "two"}, {"q"});
  distance.Node("ReduceSum", {"q", "axes"}, {"s"});
  distance.Node("Pow", {"s", "root"}, {"y"});
  EXPECT_EQ(WithGradient(distance, {0, 0, 0, 0}).second, (std::vector<float>{0, 0, 0, 0}));

  Written deviation;
  Written::Attribute(deviation.Node("ReduceMean", {"x"}, {"m"}), "axes", std::vector<int64_t>{1});
  deviation.Node("Sub", {"x", "m"}, {"d"});
  deviation.Node("Mul", {"d", "d"}, {"q"});
  Written::Attribute(deviation.Node("ReduceMean", {"q"}, {"v"}), "axes", std::vector<int64_t>{1});
  deviation.Node("Sqrt", {"v"}, {"y"});
  EXPECT_EQ(WithGradient(deviation, {3, 3, 3, 3}).second, (std::vector<float>{0, 0, 0, 0}));
}

// A bias of the last axis, after a reshape that splits the columns of a product or keeps them.
TEST(Import, AddsABiasBehindAReshape) {
  const auto shifted = [](const std::vector<int64_t>& target) {
    Written file;
    file.Floats("w", {4, 6}, 1);
    auto& bias = file.Floats("b", {target.back()});
    for (int64_t i = 0; i < target.back(); ++i)
      bias.set_float_data(static_cast<int>(i), static_cast<float>(i));
    file.Ints("shape", target);
    file.Node("MatMul", {"x", "w"}, {"product"});
    file.Node("Reshape", {"product", "shape"}, {"split"});
    file.Node("Add", {"split", "b"}, {"y"});
    const auto network = Network::Import(file.bytes(), "net.onnx", {.output = "", .row = {4}});
    return Running(*network, {4}, 1, false)({1, 2, 3, 4});
  };
  EXPECT_EQ(shifted({-1, 2, 3}), (std::vector<float>{10, 11, 12, 10, 11, 12}));
  EXPECT_EQ(shifted({-1, 1, 6}), (std::vector<float>{10, 11, 12, 13, 14, 15}));
}

// The file's word counts: scalars and what passes through functions are trained, weights may be constants.
TEST(Import, TrainsWhatTheFileSays) {
  Written file;
  file.Floats("scale", {}, 2);
  file.Floats("logits", {3}, 0);
  file.Floats("frozen", {4, 3});
  file.Floats("mask", {3}, 1);
  file.Floats("unused", {3}, 1);
  file.Node("MatMul", {"x", "frozen"}, {"product"});
  file.Node("Sigmoid", {"logits"}, {"gate"});
  file.Node("Mul", {"product", "gate"}, {"gated"});
  file.Node("Mul", {"gated", "mask"}, {"masked"});
  file.Node("Mul", {"scale", "masked"}, {"y"});
  const auto names = [&] {
    std::vector<std::string> all;
    const auto network = Network::Import(file.bytes(), "net.onnx", {.output = "", .row = {4}});
    for (const auto& variable : network->variables("net")) all.push_back(variable.name);
    return all;
  };
  EXPECT_THAT(names(), testing::ElementsAre("net/frozen", "net/mask"));  // from their use
  file.Says("scale", "trained");
  file.Says("logits", "trained");
  file.Says("frozen", "constant");
  file.Says("unused", "trained");
  EXPECT_THAT(names(), testing::ElementsAre("net/scale", "net/logits"));

  const auto network = Network::Import(file.bytes(), "net.onnx", {.output = "", .row = {4}});
  Running running(*network, {4}, 1, true);
  EXPECT_EQ(running({1, 2, 3, 4}), (std::vector<float>{5, 5, 5}));
}

// Each node is written as "Op input input ...", and computes the value of its place: "0", "1", ...
TEST(Import, SeesActivationsBehindWhatKeepsTheirValues) {
  const auto ends = [](const std::vector<std::string>& nodes) {
    Written file;
    file.Floats("w", {4, 3});
    file.Floats("one", {}, 1);
    file.Floats("ten", {}, 10);
    file.Floats("small", {}, 1e-7f);
    file.Floats("most", {}, 0.98f);
    file.Ints("axes", {1});
    file.Node("MatMul", {"x", "w"}, {"z"});
    for (size_t i = 0; i < nodes.size(); ++i) {
      std::istringstream words(nodes[i]);
      std::string op, input;
      std::vector<std::string> inputs;
      words >> op;
      while (words >> input) inputs.push_back(input);
      file.Node(op, inputs, {i + 1 == nodes.size() ? "y" : std::to_string(i)});
    }
    EXPECT_EQ(file.WhyNot(), "");
    return Network::Import(file.bytes(), "net.onnx", {.output = "", .row = {4}})->has_activation();
  };
  for (const std::vector<std::string>& nodes : std::vector<std::vector<std::string>>{
           {"Softmax z"},
           {"LogSoftmax z"},
           {"Relu z"},
           {"Tanh z", "Flatten 0"},
           {"Softmax z", "Identity 0", "Flatten 1"},
           {"Softmax z", "Log 0"},
           {"Sigmoid z", "Clip 0 small"},
           {"Sigmoid z", "Sub one 0"},
           {"Sigmoid z", "Neg 0", "Add 1 one"},
           {"Softmax z", "Add 0 small"},
           {"Softmax z", "Mul 0 one"},
           {"Softmax z", "Mul most 0", "Add 1 small"},
           {"Softmax z", "Max 0 small"},
           {"Sigmoid z", "Sigmoid z", "Mul 0 1"},
           {"Sigmoid z", "Softmax z", "Mean 0 1"},
           {"Tanh z", "Add 0 one", "Div 1 ten"},
           {"Softmax z", "ReduceSum 0 axes", "Div 0 1"},
           {"Exp z", "Exp z", "ReduceSum 1 axes", "Div 0 2"},
           {"Sub z ten", "Exp 0", "ReduceSum 1 axes", "Add 2 small", "Div 1 3"},
           {"Relu z", "ReduceSum 0 axes", "Clip 1 small", "Div 0 2"},
           {"Neg z", "Exp 0", "Add 1 one", "Div one 2"},
           {"Neg z", "Exp 0", "Add 1 one", "Reciprocal 2"},
           {"Exp z", "Add 0 one", "Div 0 1"},
       }) {
    EXPECT_TRUE(ends(nodes)) << ::testing::PrintToString(nodes);
  }
  for (const std::vector<std::string>& nodes : std::vector<std::vector<std::string>>{
           {"Identity z"},
           {"Sigmoid z", "Mul 0 z"},
           {"Sigmoid z", "Add 0 z"},
           {"Tanh z", "Mul 0 ten"},
           {"Softmax z", "Log 0", "Mul 1 z"},
           {"Relu z", "Add 0 z"},
           {"Exp z", "Exp x", "ReduceSum 1 axes", "Div 0 2"},
           {"ReduceSum z axes", "Div z 0"},
           {"Mul z z", "ReduceSum 0 axes", "Neg 1"},
           {"Exp z", "Sub 0 one", "Div z 1"},
       }) {
    EXPECT_FALSE(ends(nodes)) << ::testing::PrintToString(nodes);
  }
}

TEST(Import, MovesTheStatisticsThatTheFileNames) {
  Written file;
  for (const auto* name : {"scale", "offset", "mean", "variance"}) file.Floats(name, {4}, 1);
  file.Node("BatchNormalization", {"x", "scale", "offset", "mean", "variance"}, {"y"});
  file.Says("scale", "trained");
  const auto fixed = Network::Import(file.bytes(), "net.onnx", {.output = "", .row = {4}});
  EXPECT_EQ(fixed->variables("net").size(), 1u);
  Running running(*fixed, {4}, 2, true);
  EXPECT_TRUE(running.statistics.empty());

  file.Says("mean", "statistic");
  EXPECT_EQ(
      file.WhyNot(),
      "net.onnx: node 'BatchNormalization1' (BatchNormalization): its mean 'mean' and variance 'variance' "
      "must both be statistics or both be constants");
  file.Says("variance", "statistic");
  const auto moving = Network::Import(file.bytes(), "net.onnx", {.output = "", .row = {4}});
  EXPECT_EQ(moving->variables("net").size(), 3u);
  EXPECT_EQ(Running(*moving, {4}, 2, true).statistics.size(), 2u);
  file.Says("offset", "statistic");
  EXPECT_EQ(file.WhyNot(), "net.onnx: tensor 'offset': is a statistic, but no BatchNormalization moves it");
}

TEST(Refusal, OfWhatCannotBeTrained) {
  const auto why = [](const std::string& name, const std::string& value, int times = 1) {
    Written file;
    file.Floats("w", {4});
    file.Ints("i", {1});
    file.Floats("f", {1}).set_float_data(0, NAN);
    file.Node("Mul", {"x", "w"}, {"a"});
    file.Node("Cast", {"i"}, {"c"});
    Written::Attribute(*file.model().mutable_graph()->mutable_node(1), "to", 1);
    file.Node("Add", {"a", "c"}, {"b"});
    file.Node("Add", {"b", "f"}, {"y"});
    for (int i = 0; i < times; ++i) file.Says(name, value);
    return file.WhyNot();
  };
  EXPECT_EQ(why("w", "trained"), "");
  EXPECT_EQ(why("v", "trained"), "net.onnx: metadata of parameter 'v': there is no initializer of this name");
  EXPECT_EQ(why("w", "yes"),
            "net.onnx: metadata of parameter 'w': 'yes'; must be trained, constant or statistic");
  EXPECT_EQ(why("w", "constant", 2), "net.onnx: metadata of parameter 'w': is there twice");
  EXPECT_EQ(why("i", "trained"), "net.onnx: tensor 'i': is i64[1]; a weight has at least one f32 element");
  EXPECT_EQ(why("f", "trained"), "net.onnx: tensor 'f': weights are not finite");
}

TEST(Import, EndsWhereItIsTold) {
  const auto whole = Load("keras");
  EXPECT_TRUE(whole->has_activation());
  const auto logits = Load("keras", "logits");
  EXPECT_FALSE(logits->has_activation());
  EXPECT_EQ(logits->outputs(), Shape{5});
  const auto images = Load("keras", "r1");
  EXPECT_EQ(images->outputs(), (Shape{3, 3, 4}));
  EXPECT_THAT(WhyNot(ReadGolden("keras"), {6, 6, 1}, "nowhere"),
              HasSubstr("no node computes output 'nowhere'"));
}

TEST(Import, KnowsItsIds) {
  EXPECT_THAT(Load("lstm")->ids(), testing::Each(11u));
  EXPECT_EQ(static_cast<int64_t>(Load("lstm")->ids().size()), RowOf(Goldens().at("lstm")).elements());
  EXPECT_THAT(Load("attention")->ids(), testing::Each(13u));
  EXPECT_THAT(Load("mlp")->ids(), testing::IsEmpty());
}

// Lookups in a table of three rows and two columns.
Written Lookup(const std::string& op, const std::string& ids) {
  Written file;
  auto& table = file.Floats("table", {3, 2});
  for (int i = 0; i < 6; ++i) table.set_float_data(i, static_cast<float>(i + 1));
  file.Ints("columns", {3, 0});
  file.Ints("one", {1});
  file.Ints("two", {2});
  file.Ints("sizes", {2, 1, 1});
  file.Floats("factor", {}, -1);
  if (op == "Gather") Written::Attribute(file.Node(op, {"x", "columns"}, {"some"}), "axis", 1);
  if (op == "Slice") file.Node(op, {"x", "one", "two", "one"}, {"some"});
  if (op == "Split") Written::Attribute(file.Node(op, {"x", "sizes"}, {"a", "some", "b"}), "axis", 1);
  if (op == "Mul") file.Node(op, {"x", "factor"}, {"some"});
  Written::Attribute(file.Node("Cast", {ids}, {"ids"}), "to", 7);
  file.Node("Gather", {"table", "ids"}, {"y"});
  return file;
}

TEST(Import, KnowsWhichColumnsAreIds) {
  const auto ids = [](const std::string& op, const std::string& name = "some") {
    return Network::Import(Lookup(op, name).bytes(), "net.onnx", {.output = "", .row = {4}})->ids();
  };
  EXPECT_THAT(ids("Gather"), testing::ElementsAre(3, 0, 0, 3));
  EXPECT_THAT(ids("Slice"), testing::ElementsAre(0, 3, 0, 0));
  EXPECT_THAT(ids("Split"), testing::ElementsAre(0, 0, 3, 0));
  EXPECT_THAT(ids("", "x"), testing::ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(ids("Mul"), testing::IsEmpty());
}

TEST(Import, CountsComputedIndicesFromTheEnd) {
  const auto network = Network::Import(Lookup("Mul", "some").bytes(), "net.onnx", {.output = "", .row = {4}});
  Running running(*network, {4}, 1, false);
  EXPECT_EQ(running({1, 0, -2, 3}), (std::vector<float>{5, 6, 1, 2, 5, 6, 1, 2}));
}

TEST(Import, WeightsHaveTheFilesNames) {
  std::vector<std::string> names;
  for (const auto& variable : Load("mlp")->variables("net")) names.push_back(variable.name);
  EXPECT_THAT(names, ::testing::ElementsAre("net/0.weight", "net/0.bias", "net/2.weight", "net/2.bias",
                                            "net/4.weight", "net/4.bias"));
}

// A chain of convolutions has transposes only at its input and output.
TEST(Import, ImagesStayChannelsLast) {
  const auto network = Load("norms");
  Running running(*network, {8, 9, 3}, 2, false);
  size_t large = 0;
  for (const auto& node : running.graph.nodes())
    large += node.op->kind() == "transpose" && node.outputs[0].shape[0] == 2;
  // Around the group norm, which normalises over channels and pixels together.
  EXPECT_EQ(large, 2u);
}

TEST(Import, DropoutDropsInTrainingAlone) {
  const auto network = Load("dropout");
  const auto inputs = Goldens().at("dropout").at("inputs").get<std::vector<float>>();
  Running scoring(*network, {6}, 3, false), training(*network, {6}, 3, true);
  const auto plain = scoring(inputs), first = training(inputs);
  training.seed = 8;
  EXPECT_NE(plain, first);
  EXPECT_NE(training(inputs), first);
}

TEST(Import, NormsMoveTheirStatistics) {
  const auto network = Load("norms_training");
  Running running(*network, {8, 9, 3}, 3, true);
  EXPECT_EQ(running.statistics.size(), 2u);
  size_t statistics = 0;
  for (const auto& variable : network->variables("net")) {
    statistics += variable.role == optim::VariableRole::kStatistic;
  }
  EXPECT_EQ(statistics, 2u);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, ::testing::ValuesIn(Names()),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace leat::onnx

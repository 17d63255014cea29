#include "compute/onnx/network.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <unordered_set>

#include "base/exit_status.h"
#include "base/path/paths.h"
#include "compute/graph/graph.h"
#include "compute/nn/layers/kinds.h"
#include "compute/nn/loss.h"
#include "compute/onnx/fold.h"
#include "compute/ops/ops.h"

namespace leat::onnx {

namespace {

using graph::Graph;
using graph::Value;

[[noreturn]] void FailNetwork(const File& file, const std::string& message) {
  throw std::invalid_argument(file.name + ": " + message);
}

Shape Batched(int64_t batch, std::span<const int64_t> row) {
  std::vector<int64_t> sizes = {batch};
  sizes.insert(sizes.end(), row.begin(), row.end());
  return Shape(std::span<const int64_t>(sizes));
}

bool Fits(std::span<const std::optional<int64_t>> sizes, std::span<const int64_t> row) {
  return std::ranges::equal(sizes, row, [](const auto& a, int64_t b) { return !a || *a == b; });
}

std::string Sizes(std::span<const std::optional<int64_t>> sizes) {
  std::string text = "[";
  for (const auto& size : sizes) text += (text.size() > 1 ? ", " : "") + (size ? std::to_string(*size) : "?");
  return text + "]";
}

// Whether the op only moves, selects or converts elements of its first input.
bool PassesOn(std::string_view op) {
  static constexpr std::string_view kOps[] = {"Cast",    "CastLike", "Flatten",   "Identity", "Reshape",
                                              "Squeeze", "Slice",    "Transpose", "Unsqueeze"};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

enum class Use { kNone, kWeight, kStatistic, kOperand };

// The role of an op's input.
Use UseOf(std::string_view op, size_t input) {
  static const std::map<std::string_view, std::pair<size_t, size_t>> kWeights = {
      {"Conv", {1, 2}},
      {"ConvTranspose", {1, 2}},
      {"GRU", {1, 3}},
      {"Gather", {0, 0}},
      {"Gemm", {1, 2}},
      {"GroupNormalization", {1, 2}},
      {"InstanceNormalization", {1, 2}},
      {"LSTM", {1, 3}},
      {"LayerNormalization", {1, 2}},
      {"MatMul", {0, 1}},
      {"PRelu", {1, 1}},
      {"RNN", {1, 3}},
  };
  if (op == "BatchNormalization")
    return input >= 3 ? Use::kStatistic : input >= 1 ? Use::kWeight : Use::kNone;
  if (const auto at = kWeights.find(op); at != kWeights.end()) {
    return input >= at->second.first && input <= at->second.second ? Use::kWeight : Use::kNone;
  }
  static constexpr std::string_view kElements[] = {"Add", "Concat", "Div", "Expand", "Mul", "Sub", "Sum"};
  return std::ranges::find(kElements, op) != std::end(kElements) ? Use::kOperand : Use::kNone;
}

bool AllFinite(const Tensor& tensor) {
  const auto values = tensor.as<float>();
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

}  // namespace

// Drops nodes that the output does not depend on, so that unsupported ops among them do not matter.
void Network::Prune() {
  std::unordered_set<std::string> needed = {output_};
  std::vector<FileNode> kept;
  for (size_t i = file_.nodes.size(); i-- > 0;) {
    FileNode& node = file_.nodes[i];
    if (std::ranges::none_of(node.outputs, [&](const auto& name) { return needed.contains(name); })) continue;
    for (auto& name : node.outputs) {
      if (!needed.contains(name)) name.clear();
    }
    needed.insert(node.inputs.begin(), node.inputs.end());
    kept.push_back(std::move(node));
  }
  file_.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

void Network::CheckOps() const {
  // By op: first node and count.
  std::map<std::string, std::pair<std::string, size_t>> unknown;
  for (const auto& node : file_.nodes) {
    if (node.domain.empty() && FindOp(node.op) != nullptr) continue;
    auto& [name, count] = unknown[(node.domain.empty() ? "" : node.domain + ".") + node.op];
    if (count++ == 0) name = node.name;
  }
  if (unknown.empty()) return;
  std::string text;
  for (const auto& [op, where] : unknown) {
    const std::string plain = Quoted(op);
    text += (text.empty() ? "" : ", ") + plain.substr(1, plain.size() - 2) + " (node " + Quoted(where.first);
    if (where.second > 1) text += " and " + std::to_string(where.second - 1) + " more";
    text += ")";
    if (text.size() > 4000) {
      text += ", ...";
      break;
    }
  }
  FailNetwork(file_, "has ops of opset " + std::to_string(file_.opset) + " that are not supported: " + text);
}

// Trained are f32 initializers that are a weight input of an op, or an operand beside data with more than one
// element, such as biases and position embeddings. Masks and scalar factors are constants.
void Network::FindTrained() {
  std::unordered_map<std::string, std::string> source;  // value → the initializer that it passes on
  for (const auto& name : file_.initializers) source[name] = name;
  std::unordered_map<std::string, std::set<Use>> uses;
  for (const auto& node : file_.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto at = source.find(node.inputs[i]);
      if (at == source.end()) continue;
      Use use = UseOf(node.op, i);
      // Running mean and variance become statistics only if both are initializers.
      if (use == Use::kStatistic) {
        const bool pair = node.inputs.size() == 5 && file_.values.contains(node.inputs[3]) &&
                          file_.values.contains(node.inputs[4]);
        if (!pair) use = Use::kNone;
      }
      uses[at->second].insert(use);
    }
    if (!PassesOn(node.op) || node.inputs.empty() || node.outputs.empty()) continue;
    const auto at = source.find(node.inputs[0]);
    if (at == source.end()) continue;
    uses[at->second].erase(Use::kNone);
    source[node.outputs[0]] = at->second;
  }
  std::set<std::string> taken;
  for (const auto& name : file_.initializers) {
    const Tensor& tensor = file_.values.at(name);
    const auto& found = uses[name];
    if (tensor.dtype() != DType::kF32 || tensor.elements() == 0 || found.empty()) continue;
    const bool weight = found.contains(Use::kWeight);
    const bool statistic = found.contains(Use::kStatistic);
    const bool operand =
        found.contains(Use::kOperand) && !found.contains(Use::kNone) && tensor.elements() > 1;
    if (!weight && !statistic && !operand) continue;
    if (!weight && !statistic && !AllFinite(tensor)) continue;
    const bool only_moves = statistic && !weight && !operand;
    AddVariable(name, only_moves ? optim::VariableRole::kStatistic : optim::VariableRole::kTrained, &taken);
  }
}

void Network::AddVariable(const std::string& name, optim::VariableRole role, std::set<std::string>* taken) {
  const Tensor& tensor = file_.values.at(name);
  const std::string place = "tensor " + Quoted(name) + ": ";
  if (tensor.dtype() != DType::kF32 || tensor.elements() == 0)
    FailNetwork(file_, place + "is " + tensor.type().ToString() + "; a weight has at least one f32 element");
  if (!AllFinite(tensor)) FailNetwork(file_, place + "weights are not finite");
  std::string plain = PlainName(name);
  while (!taken->insert(plain).second) plain += "_";
  const auto values = tensor.as<float>();
  optim::InitSpec init{.kind = optim::InitKind::kGiven};
  init.given = std::make_shared<const std::vector<float>>(values.begin(), values.end());
  variables_.push_back({.name = plain, .shape = tensor.shape(), .init = init, .role = role});
  trained_.push_back(name);
}

// The file's treatments select the trained parameters. Weights that the output does not depend on have no
// gradient: they stay as they are.
void Network::TakeTreatments() {
  const auto treatment = [&](const std::string& name) {
    const auto at = file_.treatments.find(name);
    return at == file_.treatments.end() ? Treatment::kConstant : at->second;
  };
  std::unordered_set<std::string> read, moved;
  for (const auto& node : file_.nodes) {
    read.insert(node.inputs.begin(), node.inputs.end());
    if (node.op != "BatchNormalization" || node.inputs.size() != 5) continue;
    const std::string &mean = node.inputs[3], &variance = node.inputs[4];
    const auto first = treatment(mean), second = treatment(variance);
    if (first == Treatment::kConstant && second == Treatment::kConstant) continue;
    if (first != Treatment::kStatistic || second != Treatment::kStatistic) {
      throw std::invalid_argument(file_.Place(node) + "its mean " + Quoted(mean) + " and variance " +
                                  Quoted(variance) + " must both be statistics or both be constants");
    }
    moved.insert({mean, variance});
  }
  std::set<std::string> taken;
  for (const auto& name : file_.initializers) {
    if (treatment(name) == Treatment::kConstant || !read.contains(name)) continue;
    const bool statistic = treatment(name) == Treatment::kStatistic;
    if (statistic && !moved.contains(name))
      FailNetwork(file_, "tensor " + Quoted(name) + ": is a statistic, but no BatchNormalization moves it");
    AddVariable(name, statistic ? optim::VariableRole::kStatistic : optim::VariableRole::kTrained, &taken);
  }
}

// Finds the elements of a row that index tables.
void Network::FindIds(int64_t batch, const std::unordered_map<std::string, OnnxValue>& values) {
  const auto lookup = [&](const FileNode& node) {
    if (node.op != "Gather" || node.inputs.size() < 2) return false;
    const auto at = values.find(node.inputs[1]);
    return at != values.end() && !at->second.known;
  };
  if (std::ranges::none_of(file_.nodes, lookup)) return;
  Tensor columns(DType::kI64, Batched(batch, row_sizes_));
  const auto to = columns.as<int64_t>();
  const auto width = static_cast<size_t>(row_.elements());
  for (size_t i = 0; i < to.size(); ++i) {
    auto column = static_cast<int64_t>(i % width);
    if (row_last_) {
      const int64_t pixels = row_sizes_[1] * row_sizes_[2];
      column = column % pixels * row_sizes_[0] + column / pixels;
    }
    to[i] = column;
  }
  ids_ = onnx::FindIds(file_, columns, values);
}

void Network::FitInput(const Shape& row) {
  row_ = row;
  const auto all = std::span<const std::optional<int64_t>>(file_.input.sizes);
  const auto sizes = all.subspan(1);
  if (all[0]) fixed_ = FixedBatch{.batch = *all[0]};
  const auto given = row.sizes();
  if (Fits(sizes, given)) {
    row_sizes_.assign(given.begin(), given.end());
    return;
  }
  if (sizes.size() == 3 && given.size() == 3 &&
      Fits(sizes, std::vector<int64_t>{given[2], given[0], given[1]})) {
    row_sizes_ = {given[2], given[0], given[1]};
    row_last_ = true;
    return;
  }
  // Otherwise the number of elements must match; one symbolic size can be inferred.
  int64_t known = 1, missing = 0;
  for (const auto& size : sizes) {
    missing += !size;
    known = std::min<int64_t>(known * size.value_or(1), int64_t{1} << 31);
  }
  const bool flat = given.size() == 1 || sizes.size() == 1;
  const int64_t elements = row.elements();
  if (flat && elements > 0 && (missing == 0 ? known == elements : missing == 1 && elements % known == 0)) {
    for (const auto& size : sizes) row_sizes_.push_back(size ? *size : elements / known);
    return;
  }
  FailNetwork(file_, "input " + Quoted(file_.input.name) + " needs rows of " + Sizes(sizes) + ", not " +
                         row.ToString());
}

Network::Built Network::Build(Graph& graph, Value x, std::span<const Value> variables, nn::StepContext& step,
                              const FixedBatch* fixed) const {
  const int64_t batch = graph.shape(x)[0];
  const Shape shape = row_last_ ? graph.shape(x) : Batched(batch, row_sizes_);
  if (graph.shape(x) != shape) x = graph.Make<ops::Reshape>({x}, shape);
  if (file_.bools.contains(file_.input.name)) {
    x = ToBool(graph, x);
  } else if (file_.input.type != DType::kF32) {
    x = graph.Make<ops::Cast>({x}, file_.input.type);
  }
  Builder builder(file_, graph, step, batch, fixed, &ids_.bounded);
  if (row_last_) {
    builder.SetLast(file_.input.name, x);
  } else {
    builder.Set(file_.input.name, x);
  }
  for (size_t v = 0; v < trained_.size(); ++v) builder.Set(trained_[v], variables[v]);
  builder.Run(output_);
  const auto [value, last] = builder.AsItLies(output_);
  return {value, last, builder.values()};
}

Network::Built Network::Trial(Graph& graph, int64_t batch, const FixedBatch* fixed,
                              std::vector<Value>* variables) const {
  const auto leaf = [&](DType type, const Shape& shape) {
    return graph.Make<graph::Placeholder>({}, TensorType{type, shape});
  };
  const Value x = leaf(DType::kF32, Batched(batch, row_.sizes()));
  nn::StepContext step{.training = true,
                       .weights = leaf(DType::kF32, Shape{batch}),
                       .random_seed = leaf(DType::kI64, Shape{})};
  for (const auto& variable : variables_) {
    variables->push_back(graph.Make<graph::Variable>({}, TensorType{DType::kF32, variable.shape}));
  }
  return Build(graph, x, *variables, step, fixed);
}

// Checks with two batch sizes that the output shape per row does not depend on the batch size.
void Network::CheckShapes() {
  if (fixed_) {
    Graph graph;
    std::vector<Value> variables;
    for (auto& [name, val] : Trial(graph, fixed_->batch, nullptr, &variables).values) {
      fixed_->shapes.emplace(name, val.shape);
    }
  }
  const FixedBatch* fixed = fixed_ ? &*fixed_ : nullptr;
  std::optional<Shape> row;
  std::vector<BatchValues> trials;
  for (const int64_t batch : {int64_t{3}, int64_t{5}}) {
    Graph graph;
    std::vector<Value> variables;
    Built built = Trial(graph, batch, fixed, &variables);
    const TensorType& type = graph.type(built.value);
    if (type.dtype != DType::kF32)
      FailNetwork(file_, "output " + Quoted(output_) + " is " + type.ToString() + "; must be f32");
    if (type.shape.rank() == 0 || type.shape[0] != batch) {
      FailNetwork(file_, "output " + Quoted(output_) + " is " + type.ToString() + " for batch size " +
                             std::to_string(batch) + "; its first axis must be the batch");
    }
    const Shape own(type.shape.sizes().subspan(1));
    if (row && *row != own) {
      FailNetwork(file_, "output " + Quoted(output_) + " is " + row->ToString() + " or " + own.ToString() +
                             " per row, depending on the batch size");
    }
    row = own;
    if (trials.empty()) {
      FindIds(batch, built.values);
      has_activation_ = nn::EndsWithActivation(graph, built.value);
    }
    trials.push_back({batch, std::move(built.values)});
  }
  CheckRows(file_, trials[0], trials[1]);
  outputs_ = *row;
}

void Network::CheckGradient() const {
  Graph graph;
  std::vector<Value> variables, trained;
  const Built built = Trial(graph, 2, fixed_ ? &*fixed_ : nullptr, &variables);
  for (size_t v = 0; v < variables.size(); ++v) {
    if (variables_[v].role == optim::VariableRole::kTrained) trained.push_back(variables[v]);
  }
  const Value loss = graph.Make<ops::ReduceSum>({built.value});
  try {
    if (!trained.empty()) graph::Gradients(graph, loss, trained);
  } catch (const std::invalid_argument& error) {
    FailNetwork(file_, std::string("cannot be trained: ") + error.what());
  }
}

std::shared_ptr<const Network> Network::Import(std::string_view bytes, const std::string& name,
                                               const ImportOptions& options) {
  auto network = std::make_shared<Network>();
  network->file_ = ParseFile(bytes, name);
  network->bytes_ = std::make_shared<const std::string>(bytes);
  const File& file = network->file_;
  network->output_ = options.output.empty() ? file.outputs[0] : options.output;
  network->Prune();
  if (file.nodes.empty()) FailNetwork(file, "no node computes output " + Quoted(network->output_));
  network->CheckOps();
  if (file.treatments.empty()) {
    network->FindTrained();
  } else {
    network->TakeTreatments();
  }
  try {
    network->FitInput(options.row);
    network->CheckShapes();
    network->CheckGradient();
  } catch (const std::invalid_argument& error) {
    // Errors of Shape lack the file name; add it.
    const std::string message = error.what();
    if (message.starts_with(name + ": ")) throw;
    FailNetwork(file, message);
  }
  return network;
}

std::vector<optim::VariableSpec> Network::variables(const std::string& prefix) const {
  auto all = variables_;
  for (auto& variable : all) variable.name = prefix + "/" + variable.name;
  return all;
}

Value Network::Apply(Graph& graph, Value x, std::span<const Value> variables, nn::StepContext& step) const {
  return Build(graph, x, variables, step, fixed_ ? &*fixed_ : nullptr).value;
}

namespace {

std::string ReadBytes(const Config& setting, const std::string& path) {
  constexpr uintmax_t kMax = uintmax_t{1} << 31;
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    setting.Fail(path + " is no file");
  auto bytes = ReadFirstBytes(path, kMax);
  if (!bytes.ok() && ExitStatusOf(bytes.status().code()) != ExitStatus::kBadInput) Throw(bytes.status());
  if (!bytes.ok()) setting.Fail("cannot read " + bytes.status().message());
  if (bytes->empty()) setting.Fail(path + " is empty");
  if (bytes->size() >= kMax) setting.Fail(path + " has more bytes than the limit of ONNX, 2 GiB");
  return std::move(bytes).value();
}

class OnnxLayer final : public nn::Layer {
 public:
  explicit OnnxLayer(const nn::LayerRequest& request) : Layer(request) {
    nn::AllowSettings(request.settings, {"file", "output"});
    nn::Elements(request);
    const Config setting = request.settings.At("file");
    const std::filesystem::path path = setting.String();
    const std::string bytes = ReadBytes(setting, request.files.Locate(path.string()));
    try {
      network_ = Network::Import(bytes, path.filename().string(),
                                 {.output = request.settings.String("output", ""), .row = request.inputs});
    } catch (const std::invalid_argument& error) {
      setting.Fail("layer " + request.name + ": " + error.what());
    }
  }

  Shape outputs() const override { return network_->outputs(); }
  std::vector<optim::VariableSpec> variables() const override { return network_->variables(name()); }
  bool has_activation() const override { return network_->has_activation(); }
  std::vector<uint32_t> ids() const override { return network_->ids(); }

  nn::Flow Apply(graph::Graph& graph, const nn::Flow& in, std::span<const graph::Value> variables,
                 nn::StepContext& step) const override {
    return {network_->Apply(graph, in.x, variables, step), in.lengths};
  }

  const Network& network() const { return *network_; }

 private:
  std::shared_ptr<const Network> network_;
};

constexpr nn::LayerKind kKinds[] = {{.kind = "onnx", .make = nn::Make<OnnxLayer>, .outermost = true}};

}  // namespace

std::span<const nn::LayerKind> LayerKinds() {
  return kKinds;
}

const Network* NetworkOf(const nn::Layer& layer) {
  const auto* onnx = dynamic_cast<const OnnxLayer*>(&layer);
  return onnx == nullptr ? nullptr : &onnx->network();
}

}  // namespace leat::onnx

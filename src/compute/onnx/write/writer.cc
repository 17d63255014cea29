#include "compute/onnx/write/writer.h"

#include <stdexcept>

#include "compute/graph/builtin.h"
#include "compute/graph/pass.h"
#include "compute/onnx/file.h"

namespace leat::onnx {

using graph::Value;

Writer::Writer(const graph::Graph& graph, const graph::Graph& other, proto::GraphProto* file)
    : graph_(graph), other_(other), file_(file), names_({"features", "outputs", "scores"}) {}

void Writer::SetVariable(Value v, const std::string& name, std::span<const float> values) {
  variables_[v] = {name, values};
}

void Writer::Fail(const std::string& message) const {
  throw std::invalid_argument((current_ == nullptr ? ""
                                                   : "node " + Quoted(current_->name) + " (" +
                                                         std::string(current_->op->kind()) + "): ") +
                              message);
}

std::string Writer::Fresh(const std::string& hint) {
  std::string name = hint;
  for (int i = 1; !names_.insert(name).second; ++i) name = hint + "_" + std::to_string(i);
  return name;
}

std::string Writer::Plain(Value v) {
  if (const auto at = plain_.find(v); at != plain_.end()) return at->second;
  if (const auto at = first_.find(v); at != first_.end()) {
    const std::string name = Node("Transpose", {at->second}, graph_.node(v).name + "/channels_last");
    Attribute("perm", std::vector<int64_t>{0, 2, 3, 1});
    return plain_[v] = name;
  }
  if (const auto at = variables_.find(v); at != variables_.end()) {
    return plain_[v] = Floats(graph_.shape(v), at->second.second, at->second.first);
  }
  const Tensor* constant = graph::ConstantValue(*graph_.node(v).op);
  if (constant == nullptr) Fail("reads " + Quoted(graph_.node(v).name) + ", which has no name in the file");
  if (graph_.shape(v) != other_.shape(v)) {
    Fail("has a constant " + constant->type().ToString() +
         " that depends on the batch size; export with a fixed batch");
  }
  return plain_[v] = Known(*constant, graph_.node(v).name);
}

std::string Writer::First(Value v) {
  if (const auto at = first_.find(v); at != first_.end()) return at->second;
  const std::string name = Node("Transpose", {Plain(v)}, graph_.node(v).name + "/channels_first");
  Attribute("perm", std::vector<int64_t>{0, 3, 1, 2});
  return first_[v] = name;
}

std::string Writer::Node(std::string_view op, const std::vector<std::string>& inputs,
                         const std::string& hint) {
  auto* node = file_->add_node();
  node->set_op_type(std::string(op));
  for (const auto& input : inputs) node->add_input(input);
  const std::string name = Fresh(hint);
  node->set_name(name);
  node->add_output(name);
  return name;
}

proto::AttributeProto& Writer::AddAttribute(const std::string& name,
                                            proto::AttributeProto::AttributeType type) {
  auto* attribute = file_->mutable_node(file_->node_size() - 1)->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return *attribute;
}

void Writer::Attribute(const std::string& name, int64_t value) {
  AddAttribute(name, proto::AttributeProto::INT).set_i(value);
}

void Writer::Attribute(const std::string& name, float value) {
  AddAttribute(name, proto::AttributeProto::FLOAT).set_f(value);
}

void Writer::Attribute(const std::string& name, const std::string& value) {
  AddAttribute(name, proto::AttributeProto::STRING).set_s(value);
}

void Writer::Attribute(const std::string& name, const std::vector<int64_t>& values) {
  auto& attribute = AddAttribute(name, proto::AttributeProto::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
}

void Writer::Attribute(const std::string& name, const std::vector<std::string>& values) {
  auto& attribute = AddAttribute(name, proto::AttributeProto::STRINGS);
  for (const auto& value : values) attribute.add_strings(value);
}

std::string Writer::Output(const std::string& hint) {
  const std::string name = hint.empty() ? "" : Fresh(hint);
  file_->mutable_node(file_->node_size() - 1)->add_output(name);
  return name;
}

int32_t TypeNumber(DType type) {
  switch (type) {
    case DType::kF32:
      return proto::TensorProto::FLOAT;
    case DType::kI32:
      return proto::TensorProto::INT32;
    case DType::kI64:
      return proto::TensorProto::INT64;
    case DType::kU8:
      return proto::TensorProto::UINT8;
    case DType::kBf16:
      return proto::TensorProto::BFLOAT16;
  }
  return proto::TensorProto::UNDEFINED;
}

std::string Writer::Known(const Tensor& tensor, const std::string& hint) {
  auto* made = file_->add_initializer();
  made->set_name(Fresh(hint));
  made->set_data_type(TypeNumber(tensor.dtype()));
  for (const int64_t size : tensor.shape().sizes()) made->add_dims(size);
  made->mutable_raw_data()->assign(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
  return made->name();
}

std::string Writer::Floats(const Shape& shape, std::span<const float> values, const std::string& hint) {
  return Known(Tensor::Of<float>(shape, values), hint);
}

std::string Writer::Ints(const std::vector<int64_t>& values, const std::string& hint) {
  return Known(Tensor::Of<int64_t>(Shape{static_cast<int64_t>(values.size())}, values), hint);
}

std::string Writer::Scalar(float value, const std::string& hint) {
  return Known(Tensor::Of<float>(Shape{}, std::span(&value, 1)), hint);
}

std::span<const float> Writer::VariableValues(Value v) const {
  const auto at = variables_.find(v);
  if (at == variables_.end()) Fail("computed weights cannot be written");
  return at->second.second;
}

std::vector<int64_t> Writer::Sizes(Value v) const {
  const Shape& shape = graph_.shape(v);
  std::vector<int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
  int varying = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!Varies(v, i)) continue;
    sizes[i] = -1;
    ++varying;
  }
  if (varying > 1)
    Fail("has several sizes in " + shape.ToString() +
         " that depend on the batch size; export with a fixed batch");
  return sizes;
}

void Writer::CheckOps(const std::vector<bool>& needed) const {
  std::string text;
  std::set<std::string_view> seen;
  for (const auto& node : graph_.nodes()) {
    if (!needed[node.index] || graph::IsFeed(*node.op) || graph::ConstantValue(*node.op) != nullptr) continue;
    if (FindWriter(node.op->kind()) != nullptr || !seen.insert(node.op->kind()).second) continue;
    text += (text.empty() ? "" : ", ") + std::string(node.op->kind()) + " (node " + Quoted(node.name) + ")";
  }
  if (!text.empty()) throw std::invalid_argument("ops that cannot be written as ONNX: " + text);
}

void Writer::Write(Value result, const std::string& name) {
  std::vector<bool> needed(graph_.nodes().size());
  needed[result.node] = true;
  for (size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const auto& input : graph_.node(static_cast<graph::NodeIndex>(i)).inputs) needed[input.node] = true;
  }
  CheckOps(needed);
  // Count only uses by nodes that are written.
  uses_.resize(needed.size());
  for (const auto& node : graph_.nodes()) uses_[node.index].assign(node.outputs.size(), 0);
  for (const auto& node : graph_.nodes()) {
    if (!needed[node.index]) continue;
    for (const auto& input : node.inputs) ++uses_[input.node][input.output];
  }
  ++uses_[result.node][result.output];
  for (const auto& node : graph_.nodes()) {
    if (!needed[node.index] || graph::IsFeed(*node.op) || graph::ConstantValue(*node.op) != nullptr) continue;
    current_ = &node;
    FindWriter(node.op->kind())(*this, node);
  }
  current_ = nullptr;
  const std::string from = Plain(result);
  auto* last = file_->add_node();
  last->set_op_type("Identity");
  last->set_name(name);
  last->add_input(from);
  last->add_output(name);
}

WriteOp FindWriter(std::string_view kind) {
  static const auto* table = [] {
    auto* made = new WriterTable;
    AddMathWriters(*made);
    AddStructureWriters(*made);
    AddSequenceWriters(*made);
    return made;
  }();
  const auto at = table->writers.find(kind);
  return at == table->writers.end() ? nullptr : at->second;
}

bool LeftToBias(Writer& w, const Node& node) {
  if (w.Uses(Out(node)) != 1) return false;
  for (const auto& other : w.graph().nodes()) {
    if (other.op->kind() == "bias_add" && other.inputs[0] == Out(node)) return true;
  }
  return false;
}

}  // namespace leat::onnx

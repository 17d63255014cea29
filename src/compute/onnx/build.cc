#include "compute/onnx/build.h"

#include <stdexcept>

#include "base/text.h"
#include "compute/onnx/attributes.h"
#include "compute/onnx/fold.h"
#include "compute/ops/ops.h"

namespace leat::onnx {
namespace {

// Limits on the elements that constant folding reads and writes in total, and on the elements of a value per
// row.
constexpr int64_t kMaxFoldedTotal = int64_t{1} << 26;
constexpr int64_t kMaxElements = int64_t{1} << 26;

Shape FirstFromLast(const Shape& s) {
  return Shape{s[0], s[3], s[1], s[2]};
}

void CheckSize(const Shape& shape, int64_t batch) {
  if (shape.elements() > kMaxElements * batch) {
    Fail("result is " + shape.ToString() + " for " + std::to_string(batch) +
         " rows; at most 2^26 elements per row are supported");
  }
}

}  // namespace

OnnxValue& NodeContext::Find(size_t i) const {
  if (!Has(i)) Fail("has no input " + std::to_string(i));
  return builder_.Find(node.inputs[i]);
}

Value NodeContext::F32(size_t i) const {
  if (In(i).type != DType::kF32) FailType(i, "f32");
  return Plain(i);
}

Value NodeContext::F32Last(size_t i) const {
  if (In(i).type != DType::kF32 || In(i).shape.rank() != 4) FailType(i, "f32 of 4 axes");
  return ChannelsLast(i);
}

void NodeContext::FailType(size_t i, const std::string& wanted) const {
  Fail("input " + std::to_string(i) + " is " + TensorType{In(i).type, In(i).shape}.ToString() + "; must be " +
       wanted);
}

const Tensor& NodeContext::Known(size_t i) const {
  const OnnxValue& val = In(i);
  if (!val.known) {
    Fail("input " + std::to_string(i) + " " + Quoted(node.inputs[i]) +
         " depends on data; it must be a constant");
  }
  return *val.known;
}

std::vector<int64_t> NodeContext::KnownInts(size_t i) const {
  return Integers(Known(i));
}

float NodeContext::KnownScalar(size_t i) const {
  const Tensor& tensor = Known(i);
  if (tensor.elements() != 1 || tensor.dtype() != DType::kF32) {
    Fail("input " + std::to_string(i) + " is " + tensor.type().ToString() + "; must be one f32 number");
  }
  return tensor.as<float>()[0];
}

void NodeContext::Put(size_t i, Value value, bool last) const {
  if (!Wants(i)) return;
  CheckSize(graph().shape(value), builder_.batch_);
  last ? builder_.SetLast(node.outputs[i], value) : builder_.Set(node.outputs[i], value);
}

void NodeContext::OutKnown(size_t i, Tensor tensor) const {
  if (!Wants(i)) return;
  builder_.values_[node.outputs[i]] = {.type = tensor.dtype(), .shape = tensor.shape(), .known = tensor};
}

void NodeContext::Forward(size_t i, size_t j) const {
  if (!Wants(i)) return;
  const OnnxValue val = In(j);
  builder_.values_[node.outputs[i]] = val;
}

BuildOp FindOp(std::string_view op) {
  static const auto* all = [] {
    auto* map = new std::unordered_map<std::string_view, BuildOp>;
    for (const auto family : {MathOps(), ShapeOps(), ImageOps(), SequenceOps()}) {
      for (const auto& row : family) map->emplace(row.op, row.build);
    }
    return map;
  }();
  const auto at = all->find(op);
  return at == all->end() ? nullptr : at->second;
}

void Builder::Set(const std::string& name, Value plain) {
  const auto& type = graph_.type(plain);
  values_[name] = {.type = type.dtype, .shape = type.shape, .plain = plain};
}

void Builder::SetLast(const std::string& name, Value last) {
  const auto& type = graph_.type(last);
  values_[name] = {.type = type.dtype, .shape = FirstFromLast(type.shape), .last = last};
}

OnnxValue& Builder::Find(const std::string& name) {
  if (const auto at = values_.find(name); at != values_.end()) return at->second;
  const auto initializer = file_.values.find(name);
  if (initializer == file_.values.end()) Fail("reads " + Quoted(name) + ", which its node does not compute");
  const Tensor& tensor = initializer->second;
  return values_[name] = {.type = tensor.dtype(), .shape = tensor.shape(), .known = tensor};
}

Value Builder::MakePlain(OnnxValue& val) {
  if (!val.plain && val.known) val.plain = graph_.Make<graph::Constant>({}, *val.known);
  if (!val.plain) val.plain = graph_.Make<ops::Transpose>({*val.last}, std::vector<int>{0, 3, 1, 2});
  return *val.plain;
}

Value Builder::MakeLast(OnnxValue& val) {
  if (val.shape.rank() != 4) Fail("needs four axes, not " + val.shape.ToString());
  if (!val.last) val.last = graph_.Make<ops::Transpose>({MakePlain(val)}, std::vector<int>{0, 2, 3, 1});
  return *val.last;
}

std::pair<Value, bool> Builder::AsItLies(const std::string& name) {
  OnnxValue& val = Find(name);
  if (val.last && !val.plain) return {*val.last, true};
  return {MakePlain(val), false};
}

bool Builder::FoldNode(const FileNode& node) {
  std::vector<const Tensor*> inputs;
  for (const auto& name : node.inputs) {
    if (name.empty()) {
      inputs.push_back(nullptr);
      continue;
    }
    const OnnxValue& val = Find(name);
    if (!val.known) return false;
    inputs.push_back(&*val.known);
  }
  if (inputs.empty() || node.outputs.empty()) return false;
  const auto made = Fold(node, inputs);
  if (!made) return false;
  folded_ += made->shape().elements();
  for (const Tensor* input : inputs) folded_ += input != nullptr ? input->shape().elements() : 0;
  if (folded_ > kMaxFoldedTotal) {
    Fail("the folded constants have more than 2^26 elements in total");
  }
  NodeContext(*this, node).OutKnown(0, *made);
  return true;
}

void Builder::Run(const std::string& output) {
  for (const auto& node : file_.nodes) {
    if (values_.contains(output)) return;
    try {
      const graph::Graph::Scope scope(graph_, PlainName(node.name));
      if (FoldNode(node)) continue;
      FindOp(node.op)(NodeContext(*this, node));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(file_.Place(node) + error.what());
    }
  }
}

Value ToBool(graph::Graph& graph, Value x) {
  const Value zero = graph.Make<graph::Constant>({}, Tensor(graph.type(x).dtype, Shape{}));
  return graph.Make<ops::NotEqual>({x, zero});
}

std::string PlainName(std::string_view name) {
  std::string plain;
  for (const char c : name.substr(0, 100)) {
    const bool fits = IsLetterOrDigit(c) || c == '_' || c == '-' || c == '.';
    if (fits || !plain.empty()) plain += fits ? c : '_';
  }
  return plain.empty() ? "_" : plain;
}

}  // namespace leat::onnx

#include "compute/ops/sequence/attention.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "compute/ops/activation/activation.h"
#include "compute/ops/elementwise/elementwise.h"
#include "compute/ops/matrix/matrix.h"
#include "compute/ops/op.h"
#include "compute/ops/shape/reduce.h"
#include "compute/ops/shape/shape.h"

namespace leat::ops {
namespace {

double ScoreFlops(const AttentionShape& s) {
  return 2.0 * static_cast<double>(s.batch * s.heads * s.size) * static_cast<double>(s.queries) *
         static_cast<double>(s.keys);
}

// Builds the op from plain ops, for derivatives without a kernel.
class Composer {
 public:
  Composer(Graph& graph, const AttentionShape& shape) : graph_(graph), s_(shape) {}

  // Splits heads: [batch, time, heads · size] → [batch, heads, time, size].
  Value Apart(Value x) {
    const int64_t time = graph_.shape(x)[1];
    const Value split = graph_.Make<Reshape>({x}, Shape{s_.batch, time, s_.heads, s_.size});
    return graph_.Make<Transpose>({split}, std::vector<int>{0, 2, 1, 3});
  }
  // The inverse of Apart.
  Value Together(Value x) {
    const int64_t time = graph_.shape(x)[2];
    const Value swapped = graph_.Make<Transpose>({x}, std::vector<int>{0, 2, 1, 3});
    return graph_.Make<Reshape>({swapped}, Shape{s_.batch, time, s_.heads * s_.size});
  }

  // q, k and v with split heads.
  std::vector<Value> Parts(const std::vector<Value>& inputs) {
    if (!s_.packed) return {Apart(inputs[0]), Apart(inputs[1]), Apart(inputs[2])};
    std::vector<Value> parts;
    const int64_t width = s_.heads * s_.size;
    for (int64_t i = 0; i < 3; ++i) {
      parts.push_back(Apart(graph_.Make<Slice>({inputs[0]}, std::vector<int64_t>{0, 0, i * width},
                                               std::vector<int64_t>{s_.batch, s_.queries, width})));
    }
    return parts;
  }

  // q kᵀ / √d
  Value Scores(Value q, Value k) {
    const Value product = graph_.Make<BatchMatMul>({q, k}, false, true);
    return graph_.Make<Scale>({product}, Factor());
  }

  // 1 where a query attends to a key, else 0; broadcasts against scores.
  Value Mask(const std::vector<Value>& inputs) {
    Tensor seen(DType::kF32, {s_.queries, s_.keys});
    auto elements = seen.as<float>();
    for (int64_t i = 0; i < s_.queries; ++i) {
      for (int64_t j = 0; j < s_.keys; ++j) {
        elements[static_cast<size_t>(i * s_.keys + j)] =
            !s_.settings.causal || j <= i + s_.keys - s_.queries ? 1.0f : 0.0f;
      }
    }
    Value mask = graph_.Make<Constant>({}, seen);
    if (!s_.lengths) return mask;
    const Value lengths =
        graph_.Make<Reshape>({graph_.Make<Cast>({inputs[s_.lengths_input()]})}, Shape{s_.batch, 1, 1, 1});
    mask = graph_.Make<Mul>({mask, Below(lengths, Shape{1, 1, 1, s_.keys}, s_.keys)});
    if (!s_.settings.mask_queries) return mask;
    return graph_.Make<Mul>({mask, Below(lengths, Shape{1, 1, s_.queries, 1}, s_.queries)});
  }

  // exp(scores - shift) where a query attends to a key, else 0. Masks before exp too, since masked scores may
  // overflow it.
  Value Weights(Value scores, Value shift, Value mask) {
    const Value difference = graph_.Make<Mul>({graph_.Make<Sub>({scores, shift}), mask});
    return graph_.Make<Mul>({graph_.Make<Exp>({difference}), mask});
  }

  // Reshapes [batch, heads, queries] to broadcast against scores.
  Value Column(Value x) { return graph_.Make<Reshape>({x}, Shape{s_.batch, s_.heads, s_.queries, 1}); }
  Value SumOverLast(Value x) { return graph_.Make<ReduceSum>({x}, std::vector<int>{-1}, true); }
  float Factor() const { return 1.0f / std::sqrt(static_cast<float>(s_.size)); }

  // y and l. Mathematically independent of `shift`; the node's own l keeps exp in range.
  std::vector<Value> Forward(const std::vector<Value>& inputs, Value shift) {
    const std::vector<Value> qkv = Parts(inputs);
    const Value mask = Mask(inputs);
    const Value column = Column(shift);
    const Value weights = Weights(Scores(qkv[0], qkv[1]), column, mask);
    const Value sum = SumOverLast(weights);
    const Value some = graph_.Make<Sign>({SumOverLast(mask)});
    // Without visible keys: 0 / 1 and log 1.
    const Value safe = graph_.Make<Add>({sum, graph_.Make<Scale>({some}, -1.0f, 1.0f)});
    const Value p = graph_.Make<Div>({weights, safe});
    const Value y = Together(graph_.Make<BatchMatMul>({p, qkv[2]}));
    const Value l = graph_.Make<Mul>({graph_.Make<Add>({column, graph_.Make<Log>({safe})}), some});
    return {y, graph_.Make<Reshape>({l}, Shape{s_.batch, s_.heads, s_.queries})};
  }

  // dq, dk and dv, or dqkv.
  std::vector<Value> Backward(const std::vector<Value>& inputs) {
    const std::vector<Value> qkv = Parts(inputs);
    const size_t after = s_.inputs();
    const Value y = Apart(inputs[after]), dy = Apart(inputs[after + 2]);
    const Value p = Weights(Scores(qkv[0], qkv[1]), Column(inputs[after + 1]), Mask(inputs));
    const Value dp = graph_.Make<BatchMatMul>({dy, qkv[2]}, false, true);
    const Value level = SumOverLast(graph_.Make<Mul>({dy, y}));
    const Value ds = graph_.Make<Scale>({graph_.Make<Mul>({p, graph_.Make<Sub>({dp, level})})}, Factor());
    const Value dq = Together(graph_.Make<BatchMatMul>({ds, qkv[1]}));
    const Value dk = Together(graph_.Make<BatchMatMul>({ds, qkv[0]}, true, false));
    const Value dv = Together(graph_.Make<BatchMatMul>({p, dy}, true, false));
    if (!s_.packed) return {dq, dk, dv};
    return {graph_.Make<Concat>({dq, dk, dv}, 2)};
  }

 private:
  // 1 at positions before the lengths.
  Value Below(Value lengths, const Shape& shape, int64_t count) {
    Tensor positions(DType::kF32, shape);
    for (int64_t i = 0; i < count; ++i) {
      positions.as<float>()[static_cast<size_t>(i)] = static_cast<float>(i);
    }
    const Value rest = graph_.Make<Sub>({lengths, graph_.Make<Constant>({}, positions)});
    return graph_.Make<Relu>({graph_.Make<Sign>({rest})});
  }

  Graph& graph_;
  const AttentionShape& s_;
};

void Refuse(const std::string& what) {
  throw std::invalid_argument(what);
}

std::vector<TensorType> TypesOf(const Graph& graph, std::span<const Value> values) {
  std::vector<TensorType> types;
  for (Value v : values) types.push_back(graph.type(v));
  return types;
}

}  // namespace

int64_t AttentionShape::Visible(int64_t query, int64_t length) const {
  if (settings.mask_queries && query >= length) return 0;
  const int64_t most = settings.causal ? query + keys - queries + 1 : keys;
  return std::clamp<int64_t>(length, 0, most);
}

AttentionShape AttentionShapeOf(const AttentionSettings& settings, Types inputs) {
  AttentionShape s;
  s.settings = settings;
  s.heads = settings.heads;
  s.packed = inputs.size() <= 2;
  s.lengths = inputs.size() == 2 || inputs.size() == 4;
  if (inputs.empty() || inputs.size() > 4) {
    Refuse("takes qkv or q, k, v, and optionally lengths; got " + std::to_string(inputs.size()) + " inputs");
  }
  graph::CheckF32(inputs.first(s.lengths_input()));
  const Shape &q = inputs[0].shape, &k = inputs[s.packed ? 0 : 1].shape;
  const std::string sizes = s.packed ? "qkv" + q.ToString() : "q" + q.ToString() + " k" + k.ToString();
  if (q.rank() != 3 || k.rank() != 3) Refuse(sizes + ": must be [batch, time, channels]");
  const int64_t parts = s.packed ? 3 : 1;
  if (s.heads < 1 || q[2] == 0 || q[2] % parts != 0 || q[2] / parts % s.heads != 0) {
    Refuse(sizes + ": the channels cannot be divided into " + (s.packed ? "q, k and v of " : "") +
           std::to_string(s.heads) + " heads");
  }
  s.batch = q[0];
  s.queries = q[1];
  s.keys = k[1];
  s.size = q[2] / parts / s.heads;
  if (k[0] != q[0] || k[2] != q[2]) Refuse(sizes + ": batch and channels must be the same");
  if (!s.packed && inputs[2].shape != k)
    Refuse("k" + k.ToString() + " v" + inputs[2].shape.ToString() + " differ");
  if (settings.causal && s.queries > s.keys) {
    Refuse(sizes + ": a causal attention cannot have more queries than keys");
  }
  if (settings.mask_queries && s.queries != s.keys) {
    Refuse(sizes + ": mask_queries needs as many queries as keys");
  }
  if (settings.mask_queries && !s.lengths) Refuse("mask_queries needs lengths");
  if (s.lengths && inputs.back() != TensorType{DType::kI32, {s.batch}}) {
    Refuse("lengths are " + inputs.back().ToString() + "; must be " +
           TensorType{DType::kI32, {s.batch}}.ToString());
  }
  return s;
}

std::string AttentionOp::attributes() const {
  return "heads=" + std::to_string(settings.heads) + (settings.causal ? " causal=true" : "") +
         (settings.mask_queries ? " mask_queries=true" : "");
}

std::vector<TensorType> Attention::Infer(Types inputs) const {
  const AttentionShape s = AttentionShapeOf(settings, inputs);
  return {{DType::kF32, {s.batch, s.queries, s.heads * s.size}},
          {DType::kF32, {s.batch, s.heads, s.queries}}};
}

InputGrads Attention::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const AttentionShape s = AttentionShapeOf(settings, TypesOf(graph, node.inputs));
  const Value y{node.index, 0}, l{node.index, 1};
  if (output_grads[1]) {
    return ComposedGradient(graph, node, output_grads, [&](Graph& g, const std::vector<Value>& inputs) {
      return Composer(g, s).Forward(inputs, l);
    });
  }
  std::vector<Value> inputs = node.inputs;
  inputs.insert(inputs.end(), {y, l, *output_grads[0]});
  const Value first = graph.Make<AttentionGrad>(inputs, settings);
  InputGrads grads;
  for (uint32_t i = 0; i < s.lengths_input(); ++i) grads.emplace_back(Value{first.node, i});
  if (s.lengths) grads.emplace_back(std::nullopt);
  return grads;
}

double Attention::flops(Types inputs, Types) const {
  return 2 * ScoreFlops(AttentionShapeOf(settings, inputs));
}

std::vector<TensorType> AttentionGrad::Infer(Types inputs) const {
  if (inputs.size() < 4) Refuse("takes an attention's inputs, its two outputs and dy");
  const Types forward = inputs.first(inputs.size() - 3);
  const std::vector<TensorType> outputs = Attention(settings).Infer(forward);
  const TensorType* expected[] = {&outputs[0], &outputs[1], &outputs[0]};
  for (size_t i = 0; i < 3; ++i) {
    const TensorType& given = inputs[forward.size() + i];
    if (given == *expected[i]) continue;
    Refuse("input " + std::to_string(forward.size() + i) + " is " + given.ToString() + "; must be " +
           expected[i]->ToString());
  }
  const AttentionShape s = AttentionShapeOf(settings, forward);
  return {inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(s.lengths_input())};
}

InputGrads AttentionGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const std::vector<TensorType> types = TypesOf(graph, node.inputs);
  const AttentionShape s = AttentionShapeOf(settings, std::span(types).first(types.size() - 3));
  return ComposedGradient(graph, node, output_grads, [&](Graph& g, const std::vector<Value>& inputs) {
    return Composer(g, s).Backward(inputs);
  });
}

double AttentionGrad::flops(Types inputs, Types) const {
  return 5 * ScoreFlops(AttentionShapeOf(settings, inputs.first(inputs.size() - 3)));
}

}  // namespace leat::ops

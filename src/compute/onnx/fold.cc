#include "compute/onnx/fold.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "compute/onnx/attributes.h"
#include "compute/ops/index/index.h"
#include "compute/ops/shape/shape.h"
#include "compute/tensor/dtype.h"

namespace leat::onnx {
namespace {

// Elements widened to int64_t or double.
struct Elements {
  DType type = DType::kI64;
  Shape shape;
  std::vector<int64_t> whole;
  std::vector<double> real;

  bool is_real() const { return type == DType::kF32; }
  size_t count() const { return static_cast<size_t>(shape.elements()); }
};

template <class F>
void WithType(DType type, F f) {
  switch (type) {
    case DType::kF32:
      return f(float{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU8:
      return f(uint8_t{});
    case DType::kBf16:
      break;
  }
  Fail("bf16 constants are not supported");
}

void CheckCount(const Shape& shape) {
  if (shape.elements() > kMaxFolded) {
    Fail("computes a constant " + shape.ToString() + "; at most " + std::to_string(kMaxFolded) +
         " elements are supported");
  }
}

Elements MakeElements(DType type, const Shape& shape) {
  CheckCount(shape);
  Elements made{.type = type, .shape = shape, .whole = {}, .real = {}};
  made.is_real() ? made.real.resize(made.count()) : made.whole.resize(made.count());
  return made;
}

Elements ReadElements(const Tensor& tensor) {
  Elements made = MakeElements(tensor.dtype(), tensor.shape());
  WithType(tensor.dtype(), [&](auto zero) {
    const auto from = tensor.as<decltype(zero)>();
    for (size_t i = 0; i < from.size(); ++i) {
      if constexpr (std::is_same_v<decltype(zero), float>) {
        made.real[i] = from[i];
      } else {
        made.whole[i] = from[i];
      }
    }
  });
  return made;
}

// Throws std::invalid_argument for an element out of the range of `from.type`.
Tensor ToTensor(const Elements& from) {
  Tensor tensor(from.type, from.shape);
  WithType(from.type, [&](auto zero) {
    using T = decltype(zero);
    const auto to = tensor.as<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      if constexpr (std::is_same_v<T, float>) {
        to[i] = static_cast<float>(from.real[i]);
      } else {
        if (from.whole[i] < int64_t{std::numeric_limits<T>::min()} ||
            from.whole[i] > int64_t{std::numeric_limits<T>::max()}) {
          Fail(std::to_string(from.whole[i]) + " does not fit " + std::string(Name(from.type)));
        }
        to[i] = static_cast<T>(from.whole[i]);
      }
    }
  });
  return tensor;
}

// Copies element `from` of a to element `to` of b, which has the same kind.
void CopyElement(const Elements& a, size_t from, Elements* b, size_t to) {
  if (a.is_real()) {
    b->real[to] = a.real[from];
  } else {
    b->whole[to] = a.whole[from];
  }
}

// Calls f(i, offset) for each element i of `shape`, offset by `strides` from `begin`.
template <class F>
void Walk(const Shape& shape, std::span<const int64_t> strides, int64_t begin, const F& f) {
  const auto count = static_cast<size_t>(shape.elements());
  std::vector<int64_t> at(shape.rank());
  int64_t offset = begin;
  for (size_t i = 0; i < count; ++i) {
    f(i, static_cast<size_t>(offset));
    for (size_t axis = shape.rank(); axis-- > 0;) {
      offset += strides[axis];
      if (++at[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      at[axis] = 0;
    }
  }
}

// The elements of `from` that `strides` reach from `begin`.
Elements Picked(const Elements& from, const Shape& shape, std::span<const int64_t> strides,
                int64_t begin = 0) {
  Elements made = MakeElements(from.type, shape);
  Walk(shape, strides, begin, [&](size_t i, size_t at) { CopyElement(from, at, &made, i); });
  return made;
}

// `from`, broadcast to `shape`.
Elements Stretch(const Elements& from, const Shape& shape) {
  return Picked(from, shape, ops::BroadcastStrides(from.shape, shape));
}

using Inputs = std::span<const Tensor* const>;

const Tensor& In(Inputs inputs, size_t i) {
  if (i >= inputs.size() || inputs[i] == nullptr) Fail("has no input " + std::to_string(i));
  return *inputs[i];
}

// Arithmetic.

int64_t Plus(int64_t a, int64_t b) {
  int64_t c = 0;
  if (__builtin_add_overflow(a, b, &c)) Fail("overflows 64 bits");
  return c;
}

int64_t Minus(int64_t a, int64_t b) {
  int64_t c = 0;
  if (__builtin_sub_overflow(a, b, &c)) Fail("overflows 64 bits");
  return c;
}

int64_t Times(int64_t a, int64_t b) {
  int64_t c = 0;
  if (__builtin_mul_overflow(a, b, &c)) Fail("overflows 64 bits");
  return c;
}

int64_t Negate(int64_t a) {
  return Minus(0, a);
}

int64_t Divide(int64_t a, int64_t b) {
  if (b == 0) Fail("divides by 0");
  if (b == -1) return Negate(a);
  return a / b;
}

// Has the sign of the divisor, as ONNX Mod with fmod = 0.
int64_t Modulo(int64_t a, int64_t b) {
  if (b == 0) Fail("divides by 0");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t Power(int64_t a, int64_t b) {
  if (b < 0) Fail("negative exponent " + std::to_string(b) + " of an integer");
  int64_t result = 1;
  if (a == 1 || a == 0 || a == -1) return b == 0 || a == 1 ? 1 : a == 0 ? 0 : b % 2 == 0 ? 1 : -1;
  for (int64_t i = 0; i < b; ++i) result = Times(result, a);  // overflows soon
  return result;
}

struct Arithmetic {
  int64_t (*whole)(int64_t, int64_t);
  double (*real)(double, double);
};

const std::unordered_map<std::string_view, Arithmetic>& ArithmeticOps() {
  static const std::unordered_map<std::string_view, Arithmetic> ops = {
      {"Add", {Plus, [](double a, double b) { return a + b; }}},
      {"Sub", {Minus, [](double a, double b) { return a - b; }}},
      {"Mul", {Times, [](double a, double b) { return a * b; }}},
      {"Div", {Divide, [](double a, double b) { return a / b; }}},
      {"Mod", {Modulo, [](double a, double b) { return std::fmod(a, b); }}},
      {"Pow", {Power, [](double a, double b) { return std::pow(a, b); }}},
      {"Min",
       {[](int64_t a, int64_t b) { return std::min(a, b); },
        [](double a, double b) { return std::min(a, b); }}},
      {"Max",
       {[](int64_t a, int64_t b) { return std::max(a, b); },
        [](double a, double b) { return std::max(a, b); }}},
  };
  return ops;
}

// Both inputs, broadcast to a common shape.
std::pair<Elements, Elements> FoldedOperands(Inputs inputs) {
  const Elements a = ReadElements(In(inputs, 0)), b = ReadElements(In(inputs, 1));
  if (a.is_real() != b.is_real()) {
    Fail("takes " + std::string(Name(a.type)) + " and " + std::string(Name(b.type)) +
         "; both must have the same type");
  }
  const Shape shape = ops::BroadcastShape(a.shape, b.shape);
  return {Stretch(a, shape), Stretch(b, shape)};
}

Tensor FoldArithmetic(const Arithmetic& op, Inputs inputs) {
  auto [a, b] = FoldedOperands(inputs);
  for (size_t i = 0; i < a.whole.size(); ++i) a.whole[i] = op.whole(a.whole[i], b.whole[i]);
  for (size_t i = 0; i < a.real.size(); ++i) a.real[i] = static_cast<float>(op.real(a.real[i], b.real[i]));
  return ToTensor(a);
}

template <class Holds>
Tensor FoldComparison(Inputs inputs) {
  const auto [a, b] = FoldedOperands(inputs);
  Elements made = MakeElements(DType::kU8, a.shape);
  for (size_t i = 0; i < a.whole.size(); ++i) made.whole[i] = Holds()(a.whole[i], b.whole[i]) ? 1 : 0;
  for (size_t i = 0; i < a.real.size(); ++i) made.whole[i] = Holds()(a.real[i], b.real[i]) ? 1 : 0;
  return ToTensor(made);
}

const std::unordered_map<std::string_view, Tensor (*)(Inputs)>& Comparisons() {
  static const std::unordered_map<std::string_view, Tensor (*)(Inputs)> ops = {
      {"And", FoldComparison<std::logical_and<>>}, {"Equal", FoldComparison<std::equal_to<>>},
      {"Greater", FoldComparison<std::greater<>>}, {"GreaterOrEqual", FoldComparison<std::greater_equal<>>},
      {"Less", FoldComparison<std::less<>>},       {"LessOrEqual", FoldComparison<std::less_equal<>>},
      {"Or", FoldComparison<std::logical_or<>>},   {"Xor", FoldComparison<std::not_equal_to<>>},
  };
  return ops;
}

struct OneToOne {
  int64_t (*whole)(int64_t);  // nullptr: f32 only
  double (*real)(double);
};

const std::unordered_map<std::string_view, OneToOne>& UnaryOps() {
  static const std::unordered_map<std::string_view, OneToOne> ops = {
      {"Neg", {Negate, [](double a) { return -a; }}},
      {"Abs", {[](int64_t a) { return a < 0 ? Negate(a) : a; }, [](double a) { return std::abs(a); }}},
      {"Not", {[](int64_t a) { return int64_t{a == 0}; }, nullptr}},
      {"Sqrt", {nullptr, [](double a) { return std::sqrt(a); }}},
      {"Exp", {nullptr, [](double a) { return std::exp(a); }}},
      {"Log", {nullptr, [](double a) { return std::log(a); }}},
      {"Floor", {nullptr, [](double a) { return std::floor(a); }}},
      {"Ceil", {nullptr, [](double a) { return std::ceil(a); }}},
      {"Reciprocal", {nullptr, [](double a) { return 1 / a; }}},
      {"Sin", {nullptr, [](double a) { return std::sin(a); }}},
      {"Cos", {nullptr, [](double a) { return std::cos(a); }}},
  };
  return ops;
}

Tensor FoldUnary(const OneToOne& op, Inputs inputs) {
  Elements x = ReadElements(In(inputs, 0));
  if (x.is_real() ? op.real == nullptr : op.whole == nullptr) {
    Fail("does not support " + std::string(Name(x.type)));
  }
  for (auto& element : x.whole) element = op.whole(element);
  for (auto& element : x.real) element = static_cast<float>(op.real(element));
  return ToTensor(x);
}

// Shapes and indices.

Tensor ReshapedTensor(const Tensor& from, const Shape& shape) {
  if (from.shape().elements() != shape.elements()) {
    Fail(from.shape().ToString() + " cannot be reshaped to " + shape.ToString());
  }
  Tensor to(from.dtype(), shape);
  if (from.bytes() > 0) std::memcpy(to.raw(), from.raw(), from.bytes());
  return to;
}

Tensor FoldGather(const FileNode& node, Inputs inputs) {
  const Elements data = ReadElements(In(inputs, 0));
  const Elements indices = ReadElements(In(inputs, 1));
  if (indices.is_real()) Fail("indices are f32; must be integers");
  const size_t axis = AxisOf(IntAttribute(node, "axis", 0), data.shape.rank());
  Elements made =
      MakeElements(data.type, ops::GatheredShape(data.shape, indices.shape, static_cast<int>(axis)));
  int64_t inner = 1;
  for (size_t a = axis + 1; a < data.shape.rank(); ++a) inner *= data.shape[a];
  const int64_t size = data.shape[axis];
  const auto count = static_cast<int64_t>(indices.count());
  for (size_t i = 0; i < made.count(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t index = indices.whole[static_cast<size_t>(at / inner % count)];
    if (index < -size || index >= size) {
      Fail("index " + std::to_string(index) + " is out of range for an axis of size " + std::to_string(size));
    }
    const int64_t outer = at / inner / count;
    CopyElement(data,
                static_cast<size_t>((outer * size + (index < 0 ? index + size : index)) * inner + at % inner),
                &made, i);
  }
  return ToTensor(made);
}

Tensor FoldConcat(const FileNode& node, Inputs inputs) {
  const size_t axis = AxisOf(IntAttribute(node, "axis", 0), In(inputs, 0).shape().rank());
  std::vector<Elements> parts;
  std::vector<int64_t> sizes;
  for (size_t p = 0; p < inputs.size(); ++p) {
    parts.push_back(ReadElements(In(inputs, p)));
    const Elements& part = parts.back();
    auto own = ops::SizesOf(part.shape);
    if (part.type != parts[0].type || own.size() != parts[0].shape.rank())
      Fail("inputs must have the same type and rank");
    if (p == 0) {
      sizes = own;
      continue;
    }
    const int64_t sum = sizes[axis] + own[axis];
    sizes[axis] = own[axis];
    if (sizes != own) Fail("inputs may differ only along axis " + std::to_string(axis));
    sizes[axis] = sum;
  }
  Elements made = MakeElements(parts[0].type, Shape(sizes));
  const auto strides = ops::StridesOf(made.shape);
  int64_t begin = 0;
  for (const auto& part : parts) {
    Walk(part.shape, strides, begin, [&](size_t i, size_t at) { CopyElement(part, i, &made, at); });
    begin += strides[axis] * part.shape[axis];
  }
  return ToTensor(made);
}

Tensor FoldSlice(Inputs inputs) {
  const Elements data = ReadElements(In(inputs, 0));
  const auto starts = Integers(In(inputs, 1)), ends = Integers(In(inputs, 2));
  std::vector<int64_t> axes(starts.size()), steps(starts.size(), 1);
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  if (inputs.size() > 3 && inputs[3] != nullptr) axes = Integers(*inputs[3]);
  if (inputs.size() > 4 && inputs[4] != nullptr) steps = Integers(*inputs[4]);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    Fail("starts, ends, axes and steps differ in length");
  }
  auto sizes = ops::SizesOf(data.shape);
  auto strides = ops::StridesOf(data.shape);
  int64_t begin = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t axis = AxisOf(axes[i], data.shape.rank());
    const auto range = SliceOf(starts[i], ends[i], steps[i], data.shape[axis]);
    begin += range.begin * strides[axis];
    sizes[axis] = range.count;
    strides[axis] *= range.step;
  }
  return ToTensor(Picked(data, Shape(sizes), strides, begin));
}

Tensor FoldTranspose(const FileNode& node, Inputs inputs) {
  const Elements data = ReadElements(In(inputs, 0));
  const size_t rank = data.shape.rank();
  std::vector<int64_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int64_t>(rank - 1 - i);
  if (const auto given = IntsAttribute(node, "perm")) order = *given;
  std::vector<bool> seen(rank);
  std::vector<int64_t> sizes, strides;
  const auto own = ops::StridesOf(data.shape);
  if (order.size() != rank)
    Fail("perm has " + std::to_string(order.size()) + " axes, its input " + std::to_string(rank));
  for (const int64_t axis : order) {
    const size_t a = AxisOf(axis, rank);
    if (seen[a]) Fail("perm lists axis " + std::to_string(axis) + " twice");
    seen[a] = true;
    sizes.push_back(data.shape[a]);
    strides.push_back(own[a]);
  }
  return ToTensor(Picked(data, Shape(sizes), strides));
}

Tensor FoldConstantOfShape(const FileNode& node, Inputs inputs) {
  const Shape shape = Shape(Integers(In(inputs, 0)));
  const Tensor* given = TensorAttribute(node, "value");
  if (given != nullptr && given->elements() != 1)
    Fail("value has " + std::to_string(given->elements()) + " elements, not 1");
  CheckCount(shape);
  if (given == nullptr) return Tensor(DType::kF32, shape);
  return ToTensor(Stretch(ReadElements(ReshapedTensor(*given, Shape{})), shape));
}

Tensor FoldRange(Inputs inputs) {
  const Elements start = ReadElements(In(inputs, 0)), limit = ReadElements(In(inputs, 1)),
                 delta = ReadElements(In(inputs, 2));
  if (start.count() != 1 || limit.count() != 1 || delta.count() != 1)
    Fail("start, limit and delta must be scalars");
  if (start.is_real() || limit.is_real() || delta.is_real()) Fail("start, limit and delta must be integers");
  const int64_t step = delta.whole[0];
  if (step == 0) Fail("delta is 0");
  const auto wide = static_cast<__int128>(limit.whole[0]) - start.whole[0];
  const __int128 count = std::max<__int128>((wide + step + (step > 0 ? -1 : 1)) / step, 0);
  if (count > kMaxFolded) Fail("computes more than " + std::to_string(kMaxFolded) + " elements");
  Elements made = MakeElements(start.type, Shape{static_cast<int64_t>(count)});
  for (size_t i = 0; i < made.count(); ++i) made.whole[i] = start.whole[0] + static_cast<int64_t>(i) * step;
  return ToTensor(made);
}

Tensor FoldWhere(Inputs inputs) {
  const Elements condition = ReadElements(In(inputs, 0)), a = ReadElements(In(inputs, 1)),
                 b = ReadElements(In(inputs, 2));
  if (condition.is_real() || a.type != b.type)
    Fail("needs a bool condition and two tensors of the same type");
  const Shape shape = ops::BroadcastShape(ops::BroadcastShape(condition.shape, a.shape), b.shape);
  const Elements c = Stretch(condition, shape), left = Stretch(a, shape), right = Stretch(b, shape);
  Elements made = MakeElements(a.type, shape);
  for (size_t i = 0; i < made.count(); ++i) CopyElement(c.whole[i] != 0 ? left : right, i, &made, i);
  return ToTensor(made);
}

Tensor FoldExpand(Inputs inputs) {
  const Elements data = ReadElements(In(inputs, 0));
  const Shape shape = ops::BroadcastShape(data.shape, Shape(Integers(In(inputs, 1))));
  return ToTensor(Stretch(data, shape));
}

Tensor FoldTrilu(const FileNode& node, Inputs inputs) {
  Elements data = ReadElements(In(inputs, 0));
  const size_t rank = data.shape.rank();
  if (rank < 2) Fail("needs at least two axes, not " + data.shape.ToString());
  int64_t k = 0;
  if (inputs.size() > 1 && inputs[1] != nullptr) {
    const auto given = Integers(*inputs[1]);
    if (given.size() != 1) Fail("k must be one number");
    k = std::clamp(given[0], -kMaxFolded, kMaxFolded);
  }
  const bool upper = IntAttribute(node, "upper", 1) != 0;
  const int64_t rows = data.shape[rank - 2], columns = data.shape[rank - 1];
  for (size_t i = 0; i < data.count(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t row = at / columns % rows, column = at % columns;
    if (upper ? column - row >= k : column - row <= k) continue;
    if (data.is_real()) {
      data.real[i] = 0;
    } else {
      data.whole[i] = 0;
    }
  }
  return ToTensor(data);
}

// Reduction over all elements.
Tensor FoldReduce(const FileNode& node, Inputs inputs) {
  const Elements data = ReadElements(In(inputs, 0));
  std::optional<std::vector<int64_t>> axes = IntsAttribute(node, "axes");
  if (inputs.size() > 1 && inputs[1] != nullptr) axes = Integers(*inputs[1]);
  if (axes && !axes->empty() && axes->size() != data.shape.rank())
    Fail("of a constant is supported only over all axes");
  if (data.is_real() || data.count() == 0) Fail("of a constant is supported only for integers");
  int64_t total = data.whole[0];
  const auto& op = ArithmeticOps().at(node.op == "ReduceProd"  ? "Mul"
                                      : node.op == "ReduceSum" ? "Add"
                                      : node.op == "ReduceMax" ? "Max"
                                                               : "Min");
  for (size_t i = 1; i < data.count(); ++i) total = op.whole(total, data.whole[i]);
  const bool keep = IntAttribute(node, "keepdims", 1) != 0;
  std::vector<int64_t> sizes(keep ? data.shape.rank() : 0, 1);
  Elements made = MakeElements(data.type, Shape(sizes));
  made.whole[0] = total;
  return ToTensor(made);
}

Tensor FoldCast(const FileNode& node, Inputs inputs) {
  const auto [type, is_bool] = CastTargetOf(node);
  return Converted(In(inputs, 0), type, is_bool);
}

std::optional<std::vector<int64_t>> AxesInput(Inputs inputs) {
  if (inputs.size() < 2 || inputs[1] == nullptr) return std::nullopt;
  return Integers(*inputs[1]);
}

}  // namespace

Tensor Converted(const Tensor& from, DType to, bool to_bool) {
  CheckCount(from.shape());
  Tensor made(to, from.shape());
  WithType(from.dtype(), [&](auto a) {
    WithType(to, [&](auto b) {
      const auto in = from.as<decltype(a)>();
      const auto out = made.as<decltype(b)>();
      for (size_t i = 0; i < in.size(); ++i) {
        out[i] = to_bool ? static_cast<decltype(b)>(in[i] != 0) : ConvertTo<decltype(b)>(in[i]);
      }
    });
  });
  return made;
}

std::optional<Tensor> Fold(const FileNode& node, std::span<const Tensor* const> inputs) {
  const std::string_view op = node.op;
  if (const auto at = ArithmeticOps().find(op); at != ArithmeticOps().end()) {
    if (inputs.size() != 2) Fail("of " + std::to_string(inputs.size()) + " constants is not supported");
    return FoldArithmetic(at->second, inputs);
  }
  if (const auto at = Comparisons().find(op); at != Comparisons().end()) return at->second(inputs);
  if (const auto at = UnaryOps().find(op); at != UnaryOps().end()) return FoldUnary(at->second, inputs);
  if (op == "Identity") return In(inputs, 0);
  if (op == "Cast") return FoldCast(node, inputs);
  if (op == "Gather") return FoldGather(node, inputs);
  if (op == "Concat") return FoldConcat(node, inputs);
  if (op == "Slice") return FoldSlice(inputs);
  if (op == "Transpose") return FoldTranspose(node, inputs);
  if (op == "ConstantOfShape") return FoldConstantOfShape(node, inputs);
  if (op == "Range") return FoldRange(inputs);
  if (op == "Where") return FoldWhere(inputs);
  if (op == "Expand") return FoldExpand(inputs);
  if (op == "Trilu") return FoldTrilu(node, inputs);
  if (op == "ReduceProd" || op == "ReduceSum" || op == "ReduceMax" || op == "ReduceMin") {
    if (inputs.empty() || In(inputs, 0).dtype() == DType::kF32) return std::nullopt;
    return FoldReduce(node, inputs);
  }
  if (op == "Reshape") {
    const auto target = Integers(In(inputs, 1));
    return ReshapedTensor(
        In(inputs, 0), ReshapeTarget(In(inputs, 0).shape(), target, IntAttribute(node, "allowzero", 0) != 0));
  }
  if (op == "Unsqueeze")
    return ReshapedTensor(In(inputs, 0), Unsqueezed(In(inputs, 0).shape(), Integers(In(inputs, 1))));
  if (op == "Squeeze")
    return ReshapedTensor(In(inputs, 0), Squeezed(In(inputs, 0).shape(), AxesInput(inputs)));
  return std::nullopt;
}

}  // namespace leat::onnx

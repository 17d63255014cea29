#include "compute/onnx/fold.h"

#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "compute/onnx/attributes.h"

namespace leat::onnx {
namespace {

// How an op may mix rows.
enum class Kind {
  kElements,   // only by its result's shape: it computes along axes that the result lacks, or not at all
  kReshapes,   // keeps the order of the elements
  kConcat,     // along `axis`
  kParts,      // Slice and Split
  kGather,     // along `axis`
  kAxis,       // along `axis`, default -1
  kInner,      // along all axes from `axis` on, default -1
  kImages,     // along all axes but the first
  kSequences,  // along all axes but the second
};

constexpr std::pair<Kind, std::string_view> kOpsOf[] = {
    {Kind::kElements,
     " Abs Add And BatchNormalization Cast CastLike Ceil Clip Constant ConstantOfShape Cos Div Dropout "
     "Elu Equal Erf Exp Expand Floor Gelu Gemm Greater GreaterOrEqual HardSigmoid HardSwish Identity "
     "LeakyRelu Less LessOrEqual Log MatMul Max Mean Min Mod Mul Neg Not Or PRelu Pad Pow Range "
     "Reciprocal ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
     "ReduceSumSquare Relu Round Selu Shape Sigmoid Sign Sin Size Softplus Softsign Sqrt Sub Sum Tanh "
     "Transpose Trilu Where Xor "},
    {Kind::kReshapes, " Flatten Reshape Squeeze Unsqueeze "},
    {Kind::kConcat, " Concat "},
    {Kind::kParts, " Slice Split "},
    {Kind::kGather, " Gather "},
    {Kind::kAxis, " LogSoftmax Softmax "},
    {Kind::kInner, " LayerNormalization "},
    {Kind::kImages,
     " AveragePool Conv ConvTranspose GlobalAveragePool GlobalMaxPool GroupNormalization "
     "InstanceNormalization MaxPool "},
    {Kind::kSequences, " GRU LSTM RNN "},
};

std::optional<Kind> KindOf(std::string_view op) {
  const std::string word = " " + std::string(op) + " ";
  for (const auto& [kind, ops] : kOpsOf)
    if (ops.find(word) != std::string_view::npos) return kind;
  return std::nullopt;
}

[[noreturn]] void FailRows() {
  throw std::invalid_argument(
      "mixes the rows of a batch; each row must be computed by itself, since short batches are padded");
}

// The axis with the rows: [outer, batch, inner] in row-major order.
struct RowPlace {
  size_t axis = 0;
  std::optional<int64_t> outer;  // empty: any order, since all rows are alike
};

class Checker {
 public:
  Checker(const File& file, const BatchValues& a, const BatchValues& b) : file_(file), a_(a), b_(b) {}

  void Check() {
    for (const auto& node : file_.nodes) {
      try {
        for (size_t o = 0; o < node.outputs.size(); ++o) CheckOutput(node, o);
      } catch (const std::invalid_argument& error) {
        throw std::invalid_argument(file_.Place(node) + error.what());
      }
    }
  }

 private:
  const OnnxValue* ValueOf(const BatchValues& from, const std::string& name) const {
    const auto at = from.values.find(name);
    return at == from.values.end() ? nullptr : &at->second;
  }
  const Shape& ShapeOf(const std::string& name) const { return a_.values.at(name).shape; }
  bool IsKnown(const std::string& name) const {
    const OnnxValue *a = ValueOf(a_, name), *b = ValueOf(b_, name);
    return a == nullptr || b == nullptr || (a->known && b->known);
  }

  // The axis that grows with the batch.
  std::optional<size_t> RowAxis(const std::string& name) const {
    const Shape &a = a_.values.at(name).shape, &b = b_.values.at(name).shape;
    std::optional<size_t> found;
    for (size_t i = 0; i < a.rank(); ++i) {
      if (a[i] == b[i]) continue;
      if (found || a[i] % a_.batch != 0 || b[i] % b_.batch != 0 || a[i] / a_.batch != b[i] / b_.batch)
        FailRows();
      found = i;
    }
    return found;
  }

  // The place of the rows in a value that is the same for every row, such as a constant that was expanded.
  std::optional<RowPlace> Alike(const std::string& name) const {
    const auto axis = RowAxis(name);
    if (!axis) return std::nullopt;
    return RowPlace{*axis, ShapeOf(name)[*axis] == a_.batch ? std::optional<int64_t>(1) : std::nullopt};
  }

  std::optional<RowPlace> RowsOf(const FileNode& node, size_t input) const {
    if (input >= node.inputs.size() || node.inputs[input].empty()) return std::nullopt;
    if (node.op == "CastLike" && input == 1) return std::nullopt;  // only its type is read
    const std::string& name = node.inputs[input];
    if (const auto at = rows_.find(name); at != rows_.end()) return at->second;
    return ValueOf(a_, name) == nullptr || ValueOf(b_, name) == nullptr ? std::nullopt : Alike(name);
  }

  void CheckOutput(const FileNode& node, size_t output) {
    const std::string& name = node.outputs[output];
    if (name.empty() || IsKnown(name)) return;
    const auto kind = KindOf(node.op);
    if (!kind) FailRows();
    bool has_rows = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      has_rows = has_rows || (RowsOf(node, i) && !IsKnown(node.inputs[i]));
      if (*kind == Kind::kElements) CheckConstant(node.inputs[i]);
    }
    CheckAxes(node, *kind);
    auto rows = Alike(name);
    if (has_rows && !rows) FailRows();
    if (rows && has_rows) {
      rows->outer = OuterOf(node, *kind, output, *rows);
      const int64_t size = ShapeOf(name)[rows->axis];
      if (rows->outer && size != 0 && size % (*rows->outer * a_.batch) != 0) FailRows();
    }
    rows_[name] = rows;
  }

  // A constant that is not the same for all batches, such as 1 / batch.
  void CheckConstant(const std::string& name) const {
    if (name.empty() || file_.values.contains(name)) return;
    const OnnxValue *a = ValueOf(a_, name), *b = ValueOf(b_, name);
    if (a == nullptr || b == nullptr || !a->known || !b->known) return;
    if (a->type != DType::kF32 || a->shape != b->shape) return;
    if (a->known->bytes() > 0 && std::memcmp(a->known->raw(), b->known->raw(), a->known->bytes()) != 0) {
      throw std::invalid_argument("reads " + Quoted(name) +
                                  ", which depends on the number of rows; short batches are padded");
    }
  }

  // The axes along which an op computes although its result has them.
  void CheckAxes(const FileNode& node, Kind kind) const {
    const auto rows = RowsOf(node, 0);
    const size_t rank = node.inputs.empty() || node.inputs[0].empty() ? 0 : ShapeOf(node.inputs[0]).rank();
    const auto axis = [&](int64_t fallback) { return AxisOf(IntAttribute(node, "axis", fallback), rank); };
    bool mixes = false;
    switch (kind) {
      case Kind::kGather:
        mixes = rows && rows->axis == axis(0);
        break;
      case Kind::kAxis:
        mixes = rows && rows->axis == axis(-1);
        break;
      case Kind::kInner:
        mixes = rows && rows->axis >= axis(-1);
        break;
      case Kind::kImages:
        mixes = rows && rows->axis != 0;
        break;
      case Kind::kSequences:
        mixes = rows && rows->axis != 1;
        break;
      default:
        break;
    }
    if (kind == Kind::kInner || kind == Kind::kImages) {
      for (size_t i = 1; i < node.inputs.size(); ++i) mixes = mixes || RowsOf(node, i).has_value();
    }
    if (mixes) FailRows();
  }

  // RowPlace::outer of an output whose rows are along `to.axis`.
  std::optional<int64_t> OuterOf(const FileNode& node, Kind kind, size_t output, const RowPlace& to) const {
    const auto first = RowsOf(node, 0);
    if (kind == Kind::kReshapes && first) return Reshaped(node, *first, to.axis);
    if (kind == Kind::kParts && first) return Part(node, output, *first, to.axis);
    if (kind == Kind::kConcat) {
      const size_t axis = AxisOf(IntAttribute(node, "axis", 0), ShapeOf(node.inputs[0]).rank());
      if (axis == to.axis) return Joined(node, axis);
    }
    std::optional<int64_t> outer;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto rows = RowsOf(node, i);
      if (!rows || !rows->outer) continue;
      if (outer && *outer != *rows->outer) FailRows();
      outer = rows->outer;
    }
    return outer;
  }

  static int64_t Before(const Shape& shape, size_t axis) {
    int64_t product = 1;
    for (size_t i = 0; i < axis; ++i) product *= shape[i];
    return product;
  }

  std::optional<int64_t> Reshaped(const FileNode& node, const RowPlace& from, size_t axis) const {
    const Shape &old = ShapeOf(node.inputs[0]), &made = ShapeOf(node.outputs[0]);
    if (!from.outer || old.elements() == 0) return std::nullopt;
    const int64_t outer = Before(old, from.axis) * *from.outer, before = Before(made, axis);
    if (outer % before != 0) FailRows();
    return outer / before;
  }

  // Whole batches of an axis that holds several.
  std::optional<int64_t> Part(const FileNode& node, size_t output, const RowPlace& from, size_t axis) const {
    const int64_t all = ShapeOf(node.inputs[0])[axis], size = ShapeOf(node.outputs[output])[axis];
    if (from.axis != axis) FailRows();
    if (!from.outer || all == 0 || size == all) return from.outer;
    const int64_t whole = all / *from.outer;  // batch · inner
    int64_t begin = 0;
    if (node.op == "Split") {
      const bool given = node.inputs.size() > 1 && !node.inputs[1].empty();
      const auto sizes =
          SplitSizes(all, node.outputs.size(), given ? &*a_.values.at(node.inputs[1]).known : nullptr);
      for (size_t i = 0; i < output; ++i) begin += sizes[i];
    } else {
      begin = SliceBegin(node, axis, all);
    }
    if (begin % whole != 0 || size % whole != 0) FailRows();
    return size / whole;
  }

  int64_t SliceBegin(const FileNode& node, size_t axis, int64_t size) const {
    const auto ints = [&](size_t i) {
      const bool given = i < node.inputs.size() && !node.inputs[i].empty();
      return given ? Integers(*a_.values.at(node.inputs[i]).known) : std::vector<int64_t>{};
    };
    const auto starts = ints(1), ends = ints(2), axes = ints(3), steps = ints(4);
    for (size_t i = 0; i < starts.size(); ++i) {
      const auto along = axes.empty() ? i : AxisOf(axes[i], ShapeOf(node.inputs[0]).rank());
      if (along == axis) return SliceOf(starts[i], ends[i], steps.empty() ? 1 : steps[i], size).begin;
    }
    return 0;
  }

  // Batches behind each other.
  std::optional<int64_t> Joined(const FileNode& node, size_t axis) const {
    int64_t outer = 0;
    std::optional<int64_t> whole;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto rows = RowsOf(node, i);
      if (!rows || !rows->outer) FailRows();
      const int64_t own = ShapeOf(node.inputs[i])[axis] / *rows->outer;
      if (whole && *whole != own) FailRows();
      whole = own;
      outer += *rows->outer;
    }
    return outer;
  }

  const File& file_;
  const BatchValues &a_, &b_;
  std::unordered_map<std::string, std::optional<RowPlace>> rows_;
};

}  // namespace

void CheckRows(const File& file, const BatchValues& a, const BatchValues& b) {
  Checker(file, a, b).Check();
}

bool KnowsRowsOf(std::string_view op) {
  return KindOf(op).has_value();
}

}  // namespace leat::onnx

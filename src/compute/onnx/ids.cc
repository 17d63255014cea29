#include "compute/onnx/fold.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>

#include "compute/onnx/attributes.h"

namespace leat::onnx {
namespace {

// The limit on the elements of all values that are followed.
constexpr int64_t kMaxFollowed = int64_t{1} << 26;

class Follower {
 public:
  Follower(const File& file, const Tensor& columns, const std::unordered_map<std::string, OnnxValue>& values)
      : file_(file), values_(values), elements_(columns.elements()) {
    followed_.emplace(file.input.name, columns);
    for (const int64_t column : columns.as<const int64_t>()) width_ = std::max(width_, column + 1);
  }

  Ids Find() {
    for (const auto& node : file_.nodes) {
      if (node.inputs.empty() || node.outputs.empty()) continue;
      try {
        if (node.op == "Gather" && node.inputs.size() > 1 && Followed(node.inputs[1])) {
          Limit(node);
        } else {
          Follow(node);
        }
      } catch (const std::invalid_argument&) {
        // Constant folding has limits, so it may refuse what the graph computes.
      }
      if (elements_ > kMaxFollowed) break;
    }
    return std::move(ids_);
  }

 private:
  const Tensor* Followed(const std::string& name) const {
    const auto at = followed_.find(name);
    return at == followed_.end() ? nullptr : &at->second;
  }

  void Put(const std::string& name, Tensor columns) {
    if (name.empty()) return;
    elements_ += columns.elements();
    followed_.emplace(name, std::move(columns));
  }

  // A lookup in a table.
  void Limit(const FileNode& node) {
    const Tensor* indices = Followed(node.inputs[1]);
    const Shape& shape = values_.at(node.inputs[0]).shape;
    const int64_t size = shape[AxisOf(IntAttribute(node, "axis", 0), shape.rank())];
    const auto rows = static_cast<uint32_t>(std::min<int64_t>(size, UINT32_MAX));
    ids_.limits.resize(static_cast<size_t>(width_));
    for (const int64_t column : indices->as<const int64_t>()) {
      uint32_t& limit = ids_.limits[static_cast<size_t>(column)];
      limit = limit == 0 ? rows : std::min(limit, rows);
    }
    ids_.bounded.insert(node.inputs[1]);
  }

  void Follow(const FileNode& node) {
    static constexpr std::string_view kKept[] = {"Cast",    "CastLike", "Flatten",  "Identity",
                                                 "Reshape", "Squeeze",  "Unsqueeze"};
    static constexpr std::string_view kFolded[] = {"Concat", "Expand", "Gather", "Slice", "Transpose"};
    const Tensor* columns = Followed(node.inputs[0]);
    if (columns == nullptr || file_.bools.contains(node.outputs[0])) return;
    if (std::ranges::find(kKept, node.op) != std::end(kKept)) {
      Tensor moved(DType::kI64, values_.at(node.outputs[0]).shape);
      if (moved.bytes() != columns->bytes()) return;
      std::memcpy(moved.raw(), columns->raw(), columns->bytes());
      return Put(node.outputs[0], std::move(moved));
    }
    if (node.op == "Split") return FollowSplit(node, *columns);
    if (std::ranges::find(kFolded, node.op) == std::end(kFolded)) return;
    std::vector<const Tensor*> inputs;
    for (const auto& name : node.inputs) {
      const bool data = node.op == "Concat" || &name == &node.inputs[0];
      inputs.push_back(name.empty() ? nullptr : data ? Followed(name) : Known(name));
      if (!name.empty() && inputs.back() == nullptr) return;
    }
    if (auto made = Fold(node, inputs)) Put(node.outputs[0], std::move(*made));
  }

  const Tensor* Known(const std::string& name) const {
    const auto at = values_.find(name);
    return at == values_.end() || !at->second.known ? nullptr : &*at->second.known;
  }

  void FollowSplit(const FileNode& node, const Tensor& columns) {
    const int64_t axis = IntAttribute(node, "axis", 0);
    const bool given = node.inputs.size() > 1 && !node.inputs[1].empty();
    const auto sizes = SplitSizes(columns.shape()[AxisOf(axis, columns.shape().rank())], node.outputs.size(),
                                  given ? Known(node.inputs[1]) : nullptr);
    int64_t begin = 0;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& name = node.outputs[i];
      const int64_t end = begin + sizes[i];
      const auto one = [](const int64_t& x) { return Tensor::Of<int64_t>(Shape{1}, std::span(&x, 1)); };
      const Tensor from = one(begin), to = one(end), along = one(axis);
      const FileNode slice{.name = node.name, .op = "Slice"};
      const Tensor* const inputs[] = {&columns, &from, &to, &along};
      if (auto made = Fold(slice, inputs)) Put(name, std::move(*made));
      begin = end;
    }
  }

  const File& file_;
  const std::unordered_map<std::string, OnnxValue>& values_;
  std::unordered_map<std::string, Tensor> followed_;
  int64_t elements_;
  int64_t width_ = 0;
  Ids ids_;
};

}  // namespace

Ids FindIds(const File& file, const Tensor& columns,
            const std::unordered_map<std::string, OnnxValue>& values) {
  return Follower(file, columns, values).Find();
}

}  // namespace leat::onnx

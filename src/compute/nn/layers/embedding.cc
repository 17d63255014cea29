// - embedding: {size: 65, units: 64, padding: 0, init: {normal: 1}}
//     replaces each id of a row, in [0, size), by that row of a table with `units` columns: [time] becomes
//     [time, units]. `padding`: the id that pads sequences at their end; the length of each sequence without
//     it is passed to the following layers. An id outside the table gives zeros.
#include <limits>

#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

class EmbeddingLayer final : public Layer {
 public:
  explicit EmbeddingLayer(const LayerRequest& request) : Layer(request), row_(request.inputs) {
    const Config& settings = request.settings;
    AllowSettings(settings, {"size", "units", "padding", "init"});
    settings.At("size");  // fails if it is missing
    // Ids are f32, which is exact only up to 2^24.
    constexpr int64_t kMaxIds = 1 << 24;
    size_ = static_cast<uint32_t>(settings.Integer("size", 0, 1, kMaxIds));
    units_ = ReadUnits(settings);
    if (settings.Has("padding")) padding_ = settings.Integer("padding", 0, 0, size_ - 1);
    init_ = ReadInit(settings, optim::InitKind::kNormal, size_, units_);
    if (!settings.Has("init")) init_.value = 1;
    const bool fits = row_.rank() >= 1 && row_.rank() + 2 <= Shape::kMaxRank &&
                      Elements(request) <= std::numeric_limits<int32_t>::max() / units_;
    if (!fits || (padding_ >= 0 && row_.rank() != 1)) {
      settings.Fail("layer " + name() + ": " + std::to_string(units_) + " units per id with row shape " +
                    row_.ToString() + (padding_ >= 0 ? "; padding needs rows of [time]" : ": too large"));
    }
  }

  Shape outputs() const override { return WithUnits(row_.sizes()); }
  std::vector<optim::VariableSpec> variables() const override {
    return {{name() + "/table", Shape{size_, units_}, init_}};
  }
  Flow Apply(Graph& graph, const Flow& in, std::span<const Value> variables, StepContext&) const override {
    const Value ids = graph.Make<ops::Cast>({in.x}, DType::kI32);
    Flow out{graph.Make<ops::Embedding>({variables[0], ids}), in.lengths};
    if (padding_ >= 0) {
      out.lengths = graph.Make<ops::SequenceLengths>({ids}, static_cast<int32_t>(padding_));
    }
    return out;
  }
  std::vector<uint32_t> ids() const override {
    return std::vector<uint32_t>(static_cast<size_t>(row_.elements()), size_);
  }

 private:
  Shape WithUnits(std::span<const int64_t> sizes) const {
    std::vector<int64_t> all(sizes.begin(), sizes.end());
    all.push_back(units_);
    return Shape(std::span<const int64_t>(all));
  }

  Shape row_;
  uint32_t size_ = 0, units_ = 0;
  int64_t padding_ = -1;
  optim::InitSpec init_;
};

}  // namespace

std::shared_ptr<const Layer> MakeEmbedding(const LayerRequest& request) {
  return Make<EmbeddingLayer>(request);
}

}  // namespace leat::nn

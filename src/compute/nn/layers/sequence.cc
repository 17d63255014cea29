// Layers over sequences.
#include <limits>
#include <memory>

#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

// - embedding: {size: 65, units: 64, padding: 0, init: {normal: 1}}
//     replaces each id of a row, in [0, size), by that row of a table with `units` columns: [time] becomes
//     [time, units]. `padding`: the id that pads sequences at their end; the length of each sequence without
//     it is passed to the following layers. An id outside the table gives zeros.
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

// - lstm: {units: 128, return: sequence, bidirectional: false, reverse: false, forget_bias: 1, init: ...}
// - gru: {units: 128, return: sequence, linear_before_reset: true, ...}
// - rnn: {units: 128, return: sequence, activation: tanh, ...}
//     recurrent layers over rows [time, channels]. return: sequence (default) gives the state after every
//     step, [time, units]; last gives the state after the last step, [units]. Sequences end where an
//     embedding's padding begins. reverse runs from the last step to the first; bidirectional concatenates
//     both directions to 2 · units. init is for the input weights (default glorot_uniform). State weights
//     start as glorot_uniform, biases at 0, and the bias of an lstm's forget gate at forget_bias.

enum class Cell : uint8_t { kLstm, kGru, kRnn };

uint32_t GatesOf(Cell cell) {
  return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
}

class RecurrentLayer final : public Layer {
 public:
  RecurrentLayer(const LayerRequest& request, Cell cell) : Layer(request), cell_(cell), row_(request.inputs) {
    const Config& settings = request.settings;
    Allow(settings);
    if (row_.rank() != 2) {
      settings.Fail("layer " + name() + ": needs rows of [time, channels], not " + row_.ToString());
    }
    Elements(request);
    settings.At("units");  // fails if it is missing
    constexpr int64_t kMaxUnits = 1 << 15;
    units_ = static_cast<uint32_t>(settings.Integer("units", 0, 1, kMaxUnits));
    bidirectional_ = settings.Bool("bidirectional", false);
    reverse_ = settings.Bool("reverse", false);
    if (reverse_ && bidirectional_)
      settings.Fail("reverse has no effect with bidirectional; remove one of them");
    if (settings.Has("return")) {
      last_ = settings.At("return").OneOf("return", {"sequence", "last"}) == "last";
    }
    linear_before_reset_ = settings.Bool("linear_before_reset", true);
    if (settings.Has("activation")) {
      relu_ = settings.At("activation").OneOf("activation", {"tanh", "relu"}) == "relu";
    }
    constexpr double kMaxBias = 100;
    forget_bias_ = static_cast<float>(settings.Number("forget_bias", 1, -kMaxBias, kMaxBias));
    constexpr int64_t kMaxChannels = 1 << 20;
    if (row_[1] > kMaxChannels || row_[0] * units_ > (int64_t{1} << 31)) {
      settings.Fail("layer " + name() + ": " + std::to_string(units_) + " units with rows of " +
                    row_.ToString() + " are too large");
    }
    init_ = ReadInit(settings, InitKind::kGlorotUniform, static_cast<uint32_t>(row_[1]), units_);
  }

  Shape outputs() const override {
    const int64_t width = int64_t{units_} * (bidirectional_ ? 2 : 1);
    return last_ ? Shape{width} : Shape{row_[0], width};
  }

  std::vector<VariableSpec> variables() const override {
    std::vector<VariableSpec> all = OneDirection("");
    if (bidirectional_) {
      for (auto& variable : OneDirection("reverse_")) all.push_back(std::move(variable));
    }
    return all;
  }

  Flow Apply(Graph& graph, const Flow& in, std::span<const Value> variables, StepContext&) const override {
    const size_t count = variables.size() / (bidirectional_ ? 2 : 1);
    const auto way = [&](std::span<const Value> own, bool reverse) {
      const ops::RecurrentOutputs out = AddDirection(graph, in, own, reverse);
      return last_ ? out.hidden : out.sequence;
    };
    Value y = way(variables.first(count), reverse_);
    if (bidirectional_) {
      const Value back = way(variables.subspan(count), true);
      y = graph.Make<ops::Concat>({y, back}, last_ ? 1 : 2);
    }
    return {y, last_ ? std::nullopt : in.lengths};
  }

 private:
  void Allow(const Config& settings) const {
    switch (cell_) {
      case Cell::kLstm:
        return AllowSettings(settings,
                             {"units", "return", "bidirectional", "reverse", "init", "forget_bias"});
      case Cell::kGru:
        return AllowSettings(settings,
                             {"units", "return", "bidirectional", "reverse", "init", "linear_before_reset"});
      case Cell::kRnn:
        return AllowSettings(settings, {"units", "return", "bidirectional", "reverse", "init", "activation"});
    }
  }

  bool HasNewBias() const { return cell_ == Cell::kGru && linear_before_reset_; }

  // The fans are per gate, as for a dense layer.
  std::vector<VariableSpec> OneDirection(const std::string& prefix) const {
    const int64_t width = int64_t{units_} * GatesOf(cell_);
    const std::string own = name() + "/" + prefix;
    const InitSpec by_state{.kind = InitKind::kGlorotUniform, .fan_in = units_, .fan_out = units_};
    std::vector<VariableSpec> all = {{own + "input_weight", Shape{row_[1], width}, init_},
                                     {own + "state_weight", Shape{units_, width}, by_state},
                                     {own + "bias", Shape{width}, BiasInit()}};
    if (HasNewBias()) all.push_back({own + "new_bias", Shape{units_}, InitSpec{}});
    return all;
  }

  InitSpec BiasInit() const {
    if (cell_ != Cell::kLstm || forget_bias_ == 0) return {};
    std::vector<float> values(size_t{4} * units_, 0.0f);
    std::fill_n(values.begin() + units_, units_, forget_bias_);
    return {.kind = InitKind::kGiven, .given = std::make_shared<const std::vector<float>>(std::move(values))};
  }

  ops::RecurrentOutputs AddDirection(Graph& graph, const Flow& in, std::span<const Value> variables,
                                     bool reverse) const {
    const ops::RecurrentInputs inputs{.x = in.x,
                                      .input_weight = variables[0],
                                      .state_weight = variables[1],
                                      .bias = variables[2],
                                      .lengths = in.lengths};
    switch (cell_) {
      case Cell::kLstm:
        return ops::AddLstm(graph, inputs, reverse);
      case Cell::kGru:
        return ops::AddGru(graph, inputs, HasNewBias() ? std::optional<Value>(variables[3]) : std::nullopt,
                           reverse);
      case Cell::kRnn:
        break;
    }
    return ops::AddRnn(graph, inputs, relu_, reverse);
  }

  Cell cell_;
  Shape row_;
  uint32_t units_ = 0;
  bool last_ = false, bidirectional_ = false, reverse_ = false;
  bool linear_before_reset_ = true;  // gru
  bool relu_ = false;                // rnn
  float forget_bias_ = 1;            // lstm
  InitSpec init_;
};

constexpr LayerKind kSequenceKinds[] = {
    {"embedding", Make<EmbeddingLayer>},
    {"lstm", Make<RecurrentLayer, Cell::kLstm>},
    {"gru", Make<RecurrentLayer, Cell::kGru>},
    {"rnn", Make<RecurrentLayer, Cell::kRnn>},
};

}  // namespace

std::span<const LayerKind> SequenceKinds() {
  return kSequenceKinds;
}

}  // namespace leat::nn

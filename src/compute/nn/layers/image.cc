// Layers over images.
#include <algorithm>
#include <limits>

#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

// - conv2d: {filters: 32, kernel: 5, strides: 1, padding: same, dilation: 1, groups: 1, activation: relu,
//            use_bias: true, init: he_normal}
//     activation(convolution + b) over images [height, width, channels]. kernel, strides and dilation are a
//     number or [height, width]; padding is valid (default), same, a number, [height, width] or [top, left,
//     bottom, right]. Weights are [filters, channels / groups, height, width]; init is as for dense.
// - conv2d_transpose: {filters: 32, kernel: 4, strides: 2, padding: same, output_padding: 0, dilation: 1,
//                      groups: 1, activation: relu, use_bias: true, init: he_normal}
//     transposed convolution (Zeiler et al. 2010): each element is spread over a window, so images grow by
//     the strides. padding is removed from the result; same gives a result strides times as large. Weights
//     are [channels, filters / groups, height, width].

constexpr int64_t kMaxFilters = 1 << 20;

// Common base: settings, bias and activation.
class ConvolutionLayer : public Layer {
 public:
  ConvolutionLayer(const LayerRequest& request, std::initializer_list<std::string_view> known)
      : Layer(request) {
    const Config& settings = request.settings;
    AllowSettings(settings, known);
    row_ = ReadImage(request);
    settings.At("filters");  // fails if it is missing
    filters_ = settings.Integer("filters", 0, 1, kMaxFilters);
    kernel_ = ReadPair(settings, "kernel");
    attr_.strides = ReadPair(settings, "strides", {});
    attr_.dilations = ReadPair(settings, "dilation", {});
    attr_.groups = settings.Integer("groups", 1, 1, kMaxFilters);
    if (filters_ % attr_.groups != 0 || row_[2] % attr_.groups != 0) {
      settings.Fail("layer " + request.name + ": " + std::to_string(row_[2]) + " channels and " +
                    std::to_string(filters_) + " filters cannot be divided into " +
                    std::to_string(attr_.groups) + " groups");
    }
    activation_ = ReadActivation(settings);
    use_bias_ = settings.Bool("use_bias", true);
  }

  bool has_activation() const override { return activation_ != ops::Activation::kNone; }
  Shape outputs() const override { return outputs_; }
  std::vector<VariableSpec> variables() const override {
    std::vector<VariableSpec> all = {{name() + "/weight", weights_, init_}};
    if (use_bias_) all.push_back({name() + "/bias", Shape{filters_}, InitSpec{}});
    return all;
  }
  Flow Apply(Graph& graph, const Flow& in, std::span<const Value> variables, StepContext&) const override {
    Value y = Linear(graph, in.x, variables[0]);
    if (use_bias_) y = graph.Make<ops::BiasAdd>({y, variables[1]});
    return {Activate(graph, y, activation_), {}};
  }

 protected:
  virtual Value Linear(Graph& graph, Value x, Value weights) const = 0;

  // fan_in: approximate number of inputs per output; fan_out: of outputs per input.
  void SetInit(const LayerRequest& request, double fan_in, double fan_out) {
    constexpr double kMax = std::numeric_limits<uint32_t>::max();
    if (std::max(fan_in, fan_out) > kMax) {
      request.settings.Fail("layer " + request.name + ": weights " + weights_.ToString() + " are too many");
    }
    const auto init = activation_ == ops::Activation::kRelu ? InitKind::kHeNormal : InitKind::kGlorotUniform;
    init_ = ReadInit(request.settings, init, static_cast<uint32_t>(std::max(1.0, fan_in)),
                     static_cast<uint32_t>(std::max(1.0, fan_out)));
  }
  double KernelElements() const {
    return static_cast<double>(kernel_.height) * static_cast<double>(kernel_.width);
  }
  ops::Pair Extent() const { return ops::Window{.kernel = kernel_, .dilations = attr_.dilations}.Extent(); }

  Shape row_;
  int64_t filters_ = 0;
  ops::Pair kernel_;
  ops::Conv2dAttributes attr_;
  Shape weights_, outputs_;

 private:
  ops::Activation activation_ = ops::Activation::kNone;
  bool use_bias_ = true;
  InitSpec init_;
};

class Conv2dLayer final : public ConvolutionLayer {
 public:
  explicit Conv2dLayer(const LayerRequest& request)
      : ConvolutionLayer(request, {"filters", "kernel", "strides", "padding", "dilation", "groups",
                                   "activation", "use_bias", "init"}) {
    attr_.padding = ReadPadding(request.settings, {row_[0], row_[1]}, Extent(), attr_.strides);
    outputs_ = Checked(request, [&] {
      weights_ = Shape{filters_, row_[2] / attr_.groups, kernel_.height, kernel_.width};
      const auto sizes = ops::Conv2dSizesOf(attr_, Shape{1, row_[0], row_[1], row_[2]}, weights_);
      return Shape{sizes.output.height, sizes.output.width, filters_};
    });
    SetInit(request, static_cast<double>(weights_[1]) * KernelElements(),
            static_cast<double>(filters_) * KernelElements());
  }

 private:
  Value Linear(Graph& graph, Value x, Value weights) const override {
    return graph.Make<ops::Conv2d>({x, weights}, attr_);
  }
};

class Conv2dTransposeLayer final : public ConvolutionLayer {
 public:
  explicit Conv2dTransposeLayer(const LayerRequest& request)
      : ConvolutionLayer(request, {"filters", "kernel", "strides", "padding", "output_padding", "dilation",
                                   "groups", "activation", "use_bias", "init"}) {
    size_ = ReadSize(request);
    outputs_ = Checked(request, [&] {
      weights_ = Shape{row_[2], filters_ / attr_.groups, kernel_.height, kernel_.width};
      const auto sizes = ops::Conv2dSizesOf(attr_, Shape{1, row_[0], row_[1], row_[2]}, weights_, size_);
      return Shape{sizes.input.height, sizes.input.width, filters_};
    });
    // Each output uses only one in `strides` elements of the kernel.
    const double strides =
        static_cast<double>(attr_.strides.height) * static_cast<double>(attr_.strides.width);
    SetInit(request, static_cast<double>(row_[2] / attr_.groups) * KernelElements() / strides,
            static_cast<double>(weights_[1]) * KernelElements());
  }

 private:
  Value Linear(Graph& graph, Value x, Value weights) const override {
    return graph.Make<ops::Conv2dGradInput>({x, weights}, attr_, size_);
  }

  // Height and width of the result.
  ops::Pair ReadSize(const LayerRequest& request) {
    const ops::Pair extent = Extent(), &strides = attr_.strides;
    ops::Pair more{std::max<int64_t>(strides.height - extent.height, 0),
                   std::max<int64_t>(strides.width - extent.width, 0)};
    if (IsSamePadding(request.settings)) {
      if (request.settings.Has("output_padding")) {
        request.settings.At("output_padding").Fail("output_padding cannot be set with padding same");
      }
      attr_.padding = Around({std::max<int64_t>(extent.height - strides.height, 0),
                              std::max<int64_t>(extent.width - strides.width, 0)});
    } else {
      attr_.padding = ReadPadding(request.settings, {}, extent, strides);
      more = ReadPair(request.settings, "output_padding", {0, 0}, 0);
    }
    if (more.height >= strides.height || more.width >= strides.width) {
      request.settings.At("output_padding")
          .Fail("output_padding is " + ToString(more) + "; must be smaller than strides " +
                ToString(strides));
    }
    const ops::Padding& p = attr_.padding;
    const ops::Pair size{(row_[0] - 1) * strides.height + extent.height - p.top - p.bottom + more.height,
                         (row_[1] - 1) * strides.width + extent.width - p.left - p.right + more.width};
    if (size.height < 1 || size.width < 1) {
      request.settings.Fail("layer " + request.name + ": padding removes the whole result");
    }
    return size;
  }

  ops::Pair size_;
};

// - max_pool: {size: 2, strides: 2, padding: valid}
// - avg_pool: {size: 2, strides: 2, padding: valid}
//     maximum or mean of each window of images [height, width, channels]. size (default 2), strides (default:
//     size) and padding are as for conv2d. Padding is not counted.
// - global_max_pool
// - global_avg_pool
//     the same over the whole image; the result is [channels].

enum class Pooling : uint8_t { kMax, kAvg };

Value Pool(Graph& graph, Pooling pooling, Value x, const ops::PoolAttributes& attr) {
  return pooling == Pooling::kMax ? graph.Make<ops::MaxPool>({x}, attr)
                                  : graph.Make<ops::AvgPool>({x}, attr, false);
}

class PoolLayer final : public Layer {
 public:
  PoolLayer(const LayerRequest& request, Pooling pooling) : Layer(request), pooling_(pooling) {
    const Config& settings = request.settings;
    AllowSettings(settings, {"size", "strides", "padding"});
    const Shape row = ReadImage(request);
    attr_.kernel = ReadPair(settings, "size", {2, 2});
    attr_.strides = ReadPair(settings, "strides", attr_.kernel);
    attr_.padding = ReadPadding(settings, {row[0], row[1]}, attr_.kernel, attr_.strides);
    outputs_ = Checked(request, [&] {
      const Shape y = ops::PooledShape(attr_, Shape{1, row[0], row[1], row[2]});
      return Shape{y[1], y[2], y[3]};
    });
  }

  Shape outputs() const override { return outputs_; }
  Flow Apply(Graph& graph, const Flow& in, std::span<const Value>, StepContext&) const override {
    return {Pool(graph, pooling_, in.x, attr_), {}};
  }

 private:
  Pooling pooling_;
  ops::PoolAttributes attr_;
  Shape outputs_;
};

class GlobalPoolLayer final : public Layer {
 public:
  GlobalPoolLayer(const LayerRequest& request, Pooling pooling)
      : Layer(request), pooling_(pooling), row_(ReadImage(request)) {
    AllowSettings(request.settings, {});
  }

  Shape outputs() const override { return {row_[2]}; }
  Flow Apply(Graph& graph, const Flow& in, std::span<const Value>, StepContext&) const override {
    if (pooling_ == Pooling::kAvg) {
      return {graph.Make<ops::ReduceMean>({in.x}, std::vector<int>{1, 2}), {}};
    }
    const Value y = Pool(graph, pooling_, in.x, {.kernel = {row_[0], row_[1]}, .strides = {}, .padding = {}});
    return {graph.Make<ops::Reshape>({y}, Shape{graph.shape(in.x)[0], row_[2]}), {}};
  }

 private:
  Pooling pooling_;
  Shape row_;
};

constexpr LayerKind kImageKinds[] = {
    {"conv2d", Make<Conv2dLayer>},
    {"conv2d_transpose", Make<Conv2dTransposeLayer>},
    {"max_pool", Make<PoolLayer, Pooling::kMax>, true},
    {"avg_pool", Make<PoolLayer, Pooling::kAvg>, true},
    {"global_max_pool", Make<GlobalPoolLayer, Pooling::kMax>, true},
    {"global_avg_pool", Make<GlobalPoolLayer, Pooling::kAvg>, true},
};

}  // namespace

std::span<const LayerKind> ImageKinds() {
  return kImageKinds;
}

}  // namespace leat::nn

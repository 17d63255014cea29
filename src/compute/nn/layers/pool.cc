// - max_pool: {size: 2, strides: 2, padding: valid}
// - avg_pool: {size: 2, strides: 2, padding: valid}
//     maximum or mean of each window of images [height, width, channels]. size (default 2), strides (default:
//     size) and padding are as for conv2d. Padding is not counted.
// - global_max_pool
// - global_avg_pool
//     the same over the whole image; the result is [channels].
#include "compute/nn/layers/kinds.h"
#include "compute/nn/layers/window.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

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

}  // namespace

std::shared_ptr<const Layer> MakeMaxPool(const LayerRequest& request) {
  return std::make_shared<PoolLayer>(request, Pooling::kMax);
}

std::shared_ptr<const Layer> MakeAvgPool(const LayerRequest& request) {
  return std::make_shared<PoolLayer>(request, Pooling::kAvg);
}

std::shared_ptr<const Layer> MakeGlobalMaxPool(const LayerRequest& request) {
  return std::make_shared<GlobalPoolLayer>(request, Pooling::kMax);
}

std::shared_ptr<const Layer> MakeGlobalAvgPool(const LayerRequest& request) {
  return std::make_shared<GlobalPoolLayer>(request, Pooling::kAvg);
}

}  // namespace leat::nn

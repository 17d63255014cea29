// The kinds of layers of each family, and what their constructors share.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "compute/nn/layer.h"
#include "compute/ops/convolution/convolution.h"
#include "compute/ops/matrix/matrix.h"

namespace leat::nn {

std::span<const LayerKind> DenseKinds();
std::span<const LayerKind> ImageKinds();
std::span<const LayerKind> BlockKinds();
std::span<const LayerKind> SequenceKinds();

// Readers for settings that several kinds of layers have.
//
// All of them fail with the line of the job file if a setting is missing or invalid.

// Fails on a setting that is neither in `known` nor common to all layers.
void AllowSettings(const Config& settings, std::initializer_list<std::string_view> known);

// `units:`, required.
uint32_t ReadUnits(const Config& settings);
optim::InitSpec ReadInit(const Config& settings, optim::InitKind fallback, uint32_t fan_in, uint32_t fan_out);
// `activation:`, none by default.
ops::Activation ReadActivation(const Config& settings);
graph::Value Activate(graph::Graph& graph, graph::Value x, ops::Activation activation);

// A list of sizes, or one size: [28, 28, 1].
Shape ReadShape(const Config& config);

// The shape of a batch of rows.
Shape WithBatch(int64_t batch, const Shape& row);

// Number of elements of a row. Fails if it exceeds 32 bits.
uint32_t Elements(const LayerRequest& request);

// The factory of a layer with the constructor T(request, arguments...).
template <class T, auto... kArguments>
std::shared_ptr<const Layer> Make(const LayerRequest& request) {
  return std::make_shared<T>(request, kArguments...);
}

// For convolutions and pools.

// The shape of a row. Fails unless it is [height, width, channels].
Shape ReadImage(const LayerRequest& request);

// A number for both axes, or [height, width], each at least `least`.
ops::Pair ReadPair(const Config& settings, std::string_view key, ops::Pair fallback, int64_t least = 1);
// A required setting such as `kernel:`.
ops::Pair ReadPair(const Config& settings, std::string_view key);

// `padding:` can be valid (none, the default), same (the output size is image / strides, rounded up), a
// number, [height, width] or [top, left, bottom, right]. `extent` is the dilated kernel.
ops::Padding ReadPadding(const Config& settings, const ops::Pair& image, const ops::Pair& extent,
                         const ops::Pair& strides);
// Whether `padding:` is the word `same`.
bool IsSamePadding(const Config& settings);
// Splits a total number of rows and columns evenly between the sides. An odd one goes to the bottom or right.
ops::Padding Around(const ops::Pair& total);

// Calls f and adds layer and line to any std::invalid_argument.
template <class F>
auto Checked(const LayerRequest& request, F f) {
  try {
    return f();
  } catch (const std::invalid_argument& error) {
    request.settings.Fail("layer " + request.name + ": " + error.what());
  }
}

}  // namespace leat::nn

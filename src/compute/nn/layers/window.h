// Readers for the settings of convolutions and pools. They fail with the line of the job file.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "compute/nn/layer.h"
#include "compute/nn/layers/kinds.h"
#include "compute/ops/convolution/window.h"

namespace leat::nn {

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

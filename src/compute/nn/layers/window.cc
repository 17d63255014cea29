#include "compute/nn/layers/window.h"

#include <algorithm>
#include <vector>

namespace leat::nn {
namespace {

// Upper limit on window sizes; no image is larger.
constexpr int64_t kMax = 1 << 20;

int64_t ReadSize(const Config& config, std::string_view key, int64_t least) {
  const int64_t size = config.Integer();
  if (size < least || size > kMax) {
    config.Fail(std::string(key) + " is " + std::to_string(size) + "; must be between " +
                std::to_string(least) + " and " + std::to_string(kMax));
  }
  return size;
}

std::vector<int64_t> ReadSizes(const Config& given, std::string_view key, int64_t least) {
  if (!given.IsList()) return {ReadSize(given, key, least)};
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < given.size(); ++i) sizes.push_back(ReadSize(given[i], key, least));
  return sizes;
}

// Padding of an axis for ceil(size / stride) windows.
int64_t SameTotal(int64_t size, int64_t extent, int64_t stride) {
  return std::max<int64_t>(((size + stride - 1) / stride - 1) * stride + extent - size, 0);
}

}  // namespace

Shape ReadImage(const LayerRequest& request) {
  if (request.inputs.rank() != 3) {
    request.settings.Fail("layer " + request.name + ": the row shape is " + request.inputs.ToString() +
                          "; must be an image [height, width, channels]");
  }
  Elements(request);
  return request.inputs;
}

ops::Pair ReadPair(const Config& settings, std::string_view key) {
  settings.At(key);  // fails if it is missing
  return ReadPair(settings, key, {});
}

ops::Pair ReadPair(const Config& settings, std::string_view key, ops::Pair fallback, int64_t least) {
  if (!settings.Has(key)) return fallback;
  const Config given = settings.At(key);
  const std::vector<int64_t> sizes = ReadSizes(given, key, least);
  if (sizes.empty() || sizes.size() > 2)
    given.Fail(std::string(key) + " must be a number or [height, width]");
  return {sizes.front(), sizes.back()};
}

bool IsSamePadding(const Config& settings) {
  return settings.Has("padding") && settings.At("padding").IsScalar() &&
         settings.At("padding").String() == "same";
}

ops::Padding Around(const ops::Pair& total) {
  const int64_t top = total.height / 2, left = total.width / 2;
  return {top, left, total.height - top, total.width - left};
}

ops::Padding ReadPadding(const Config& settings, const ops::Pair& image, const ops::Pair& extent,
                         const ops::Pair& strides) {
  if (!settings.Has("padding")) return {};
  if (IsSamePadding(settings)) {
    return Around({SameTotal(image.height, extent.height, strides.height),
                   SameTotal(image.width, extent.width, strides.width)});
  }
  const Config given = settings.At("padding");
  if (given.IsScalar()) {
    const std::string word = given.String();
    const bool number = !word.empty() && word.find_first_not_of("-0123456789") == std::string::npos;
    if (!number) {
      given.OneOf("padding", {"valid", "same"});
      return {};
    }
  }
  const std::vector<int64_t> sizes = ReadSizes(given, "padding", 0);
  switch (sizes.size()) {
    case 1:
      return {sizes[0], sizes[0], sizes[0], sizes[0]};
    case 2:
      return {sizes[0], sizes[1], sizes[0], sizes[1]};
    case 4:
      return {sizes[0], sizes[1], sizes[2], sizes[3]};
    default:
      given.Fail("padding must be same, valid, a number, [height, width] or [top, left, bottom, right]");
  }
}

}  // namespace leat::nn

#include "compute/nn/layers/kinds.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/fields/word.h"
#include "compute/ops/ops.h"

namespace leat::nn {

// Upper limit on the width of a layer; wider rows would not fit in memory.
constexpr int64_t kMaxUnits = 1 << 20;

void AllowSettings(const Config& settings, std::initializer_list<std::string_view> known) {
  std::vector<std::string> all(known.begin(), known.end());
  all.insert(all.end(), {"name", "device", "trainable"});
  settings.Allow(all);
}

uint32_t ReadUnits(const Config& settings) {
  settings.At("units");  // fails if it is missing
  return static_cast<uint32_t>(settings.Integer("units", 0, 1, kMaxUnits));
}

InitSpec ReadInit(const Config& settings, InitKind fallback, uint32_t fan_in, uint32_t fan_out) {
  InitSpec init{.kind = fallback, .fan_in = fan_in, .fan_out = fan_out};
  if (!settings.Has("init")) return init;
  const Config given = settings.At("init");
  if (given.IsMap()) {
    given.Allow({"constant", "normal", "uniform"});
    if (given.Keys().size() != 1)
      given.Fail("init must be a map of constant, normal or uniform to its value");
    const std::string kind = given.Keys().front();
    init.kind = kind == "constant" ? InitKind::kConstant
                : kind == "normal" ? InitKind::kNormal
                                   : InitKind::kUniform;
    constexpr double kMax = 1e6;
    init.value = static_cast<float>(given.Number(kind, 0, kind == "constant" ? -kMax : 0, kMax));
    return init;
  }
  const auto name =
      given.OneOf("init", {"glorot_uniform", "he_normal", "zeros", "constant", "normal", "uniform"});
  if (name == "constant" || name == "normal" || name == "uniform") {
    given.Fail("init " + name + " needs a value: init: {" + name + ": 0.5}");
  }
  init.kind = name == "glorot_uniform" ? InitKind::kGlorotUniform
              : name == "he_normal"    ? InitKind::kHeNormal
                                       : InitKind::kZeros;
  return init;
}

ops::Activation ReadActivation(const Config& settings) {
  return fields::FromWord(settings, "activation", ops::Activation::kNone);
}

graph::Value Activate(graph::Graph& graph, graph::Value x, ops::Activation activation) {
  switch (activation) {
    case ops::Activation::kNone:
      return x;
    case ops::Activation::kRelu:
      return graph.Make<ops::Relu>({x});
    case ops::Activation::kSigmoid:
      return graph.Make<ops::Sigmoid>({x});
    case ops::Activation::kTanh:
      return graph.Make<ops::Tanh>({x});
    case ops::Activation::kGelu:
      return graph.Make<ops::Gelu>({x});
    case ops::Activation::kGeluTanh:
      return graph.Make<ops::Gelu>({x}, true);
  }
  return x;
}

Shape ReadShape(const Config& config) {
  std::vector<int64_t> sizes;
  const auto add = [&](const Config& size) {
    const int64_t value = size.Integer();
    if (value < 1 || value > kMaxUnits) {
      size.Fail("size " + std::to_string(value) + "; must be between 1 and " + std::to_string(kMaxUnits));
    }
    sizes.push_back(value);
  };
  if (config.IsList()) {
    if (config.size() == 0 || config.size() >= Shape::kMaxRank) {
      config.Fail(std::to_string(config.size()) + " sizes; must be between 1 and " +
                  std::to_string(Shape::kMaxRank - 1));
    }
    for (size_t i = 0; i < config.size(); ++i) add(config[i]);
  } else {
    add(config);
  }
  return Shape(std::span<const int64_t>(sizes));
}

Shape WithBatch(int64_t batch, const Shape& row) {
  std::vector<int64_t> sizes = {batch};
  sizes.insert(sizes.end(), row.sizes().begin(), row.sizes().end());
  return Shape(std::span<const int64_t>(sizes));
}

uint32_t Elements(const LayerRequest& request) {
  const int64_t elements = request.inputs.elements();
  if (elements > std::numeric_limits<int32_t>::max()) {
    request.settings.Fail("layer " + request.name + ": row shape " + request.inputs.ToString() +
                          " is too large");
  }
  return static_cast<uint32_t>(elements);
}

namespace {

// Upper limit on window sizes; no image is larger.
constexpr int64_t kMaxSize = 1 << 20;

int64_t ReadSize(const Config& config, std::string_view key, int64_t least) {
  const int64_t size = config.Integer();
  if (size < least || size > kMaxSize) {
    config.Fail(std::string(key) + " is " + std::to_string(size) + "; must be between " +
                std::to_string(least) + " and " + std::to_string(kMaxSize));
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

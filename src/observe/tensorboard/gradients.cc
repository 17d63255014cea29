#include "observe/tensorboard/gradients.h"

#include <algorithm>
#include <variant>

#include "observe/tensorboard/distribution.h"

namespace leat::tensorboard {
namespace {

size_t BytesOf(const Histogram& histogram, const std::string& name) {
  constexpr size_t kHead = 64;
  return kHead + name.size() + histogram.limits.size() * 2 * sizeof(double);
}

}  // namespace

Bytes EncodeGradients(const std::vector<optim::VariableSpec>& variables,
                      const std::function<std::span<const float>(size_t)>& gradient) {
  uint64_t all = 0;
  for (const auto& variable : variables) all += static_cast<uint64_t>(variable.shape.elements());
  const size_t stride = 1 + static_cast<size_t>(all / kMostGradients);
  Summary summary;
  size_t bytes = 0;
  std::vector<float> some;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (variables[v].role == optim::VariableRole::kMoments) continue;
    std::span<const float> numbers = gradient(v);
    if (stride > 1) {
      some.clear();
      for (size_t i = 0; i < numbers.size(); i += stride) some.push_back(numbers[i]);
      numbers = some;
    }
    Distribution distribution;
    distribution.Add(numbers);
    if (distribution.count() == 0) continue;
    Histogram histogram = distribution.ToHistogram();
    bytes += BytesOf(histogram, variables[v].name);
    if (bytes > kMostGradientBytes) break;
    summary.histograms.emplace_back(variables[v].name, std::move(histogram));
  }
  const std::string encoded = Encode({.wall_time = 0, .step = 0, .what = std::move(summary)});
  const ByteView view = AsBytes(encoded);
  return {view.begin(), view.end()};
}

Result<std::vector<std::pair<std::string, Histogram>>> DecodeGradients(
    ByteView bytes, const std::vector<optim::VariableSpec>& variables) {
  LEAT_ASSIGN_OR_RETURN(Event event, Decode(bytes));
  auto* summary = std::get_if<Summary>(&event.what);
  if (summary == nullptr || !summary->scalars.empty() || summary->histograms.size() > variables.size())
    return Status(Code::kDataLoss, "these are no gradients");
  for (const auto& [name, histogram] : summary->histograms) {
    if (std::ranges::find(variables, name, &optim::VariableSpec::name) == variables.end())
      return Status(Code::kDataLoss, "gradients of '" + name + "', which is no variable of the job");
  }
  return std::move(summary->histograms);
}

}  // namespace leat::tensorboard

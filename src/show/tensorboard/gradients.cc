#include "show/tensorboard/gradients.h"

#include <algorithm>
#include <functional>

#include "base/fields/codec.h"
#include "show/tensorboard/distribution.h"

namespace leat::tensorboard {

LEAT_FIELDS(Histogram, (min), (max), (count), (sum), (sum_squares), (limits, AtMost(kMostBuckets)),
            (counts, AtMost(kMostBuckets)));
Status Check(const Histogram& histogram) {
  const auto& limits = histogram.limits;
  if (limits.size() != histogram.counts.size())
    return {Code::kDataLoss, "a histogram has more limits than counts, or fewer"};
  // Also false for NaN.
  const auto ascends = [](double a, double b) { return a < b; };
  if (std::ranges::adjacent_find(limits, std::not_fn(ascends)) != limits.end())
    return {Code::kDataLoss, "the limits of a histogram do not ascend"};
  return {};
}

namespace {

struct VariableGradient {
  std::string name;
  Histogram histogram;
};
LEAT_FIELDS(VariableGradient, (name, AtMost(1 << 16)), (histogram));
struct GradientReport {
  std::vector<VariableGradient> variables;
};
LEAT_FIELDS(GradientReport, (variables, AtMost(1 << 20)));

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
  GradientReport report;
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
    report.variables.push_back({variables[v].name, std::move(histogram)});
  }
  return fields::Encode(report);
}

Result<std::vector<std::pair<std::string, Histogram>>> DecodeGradients(
    ByteView bytes, const std::vector<optim::VariableSpec>& variables) {
  LEAT_ASSIGN_OR_RETURN(auto report, fields::Decode<GradientReport>(bytes, "gradients"));
  std::vector<std::pair<std::string, Histogram>> found;
  for (auto& [name, histogram] : report.variables) {
    if (std::ranges::find(variables, name, &optim::VariableSpec::name) == variables.end())
      return Status(Code::kDataLoss, "gradients of '" + name + "', which is no variable of the job");
    found.emplace_back(std::move(name), std::move(histogram));
  }
  if (found.size() > variables.size()) return Status(Code::kDataLoss, "gradients of one variable twice");
  return found;
}

}  // namespace leat::tensorboard

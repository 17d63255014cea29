#include "show/tensorboard/gradients.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/fields/codec.h"

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

namespace {

// Upper limits of all buckets, ascending.
const std::vector<double>& Limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    std::vector<double> all;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    all.push_back(std::numeric_limits<double>::max());
    return all;
  }();
  return limits;
}

void AddBucket(double limit, double count, Histogram* histogram) {
  if (count == 0 && histogram->counts.empty()) return;
  if (count == 0 && histogram->counts.back() == 0) {
    histogram->limits.back() = limit;
    return;
  }
  histogram->limits.push_back(limit);
  histogram->counts.push_back(count);
}

void EndBuckets(Histogram* histogram) {
  if (histogram->counts.empty() || histogram->counts.back() > 0) return;
  histogram->limits.pop_back();
  histogram->counts.pop_back();
}

}  // namespace

Distribution::Distribution() : buckets_(Limits().size()) {}

void Distribution::Add(std::span<const float> numbers) {
  const auto& limits = Limits();
  for (const float number : numbers) {
    if (!std::isfinite(number)) {
      ++not_finite_;
      continue;
    }
    const double x = number;
    // The first limit above it. No float reaches the last limit.
    ++buckets_[static_cast<size_t>(std::ranges::upper_bound(limits, x) - limits.begin())];
    min_ = count_ == 0 ? x : std::min(min_, x);
    max_ = count_ == 0 ? x : std::max(max_, x);
    ++count_;
    sum_ += x;
    sum_squares_ += x * x;
  }
}

Histogram Distribution::ToHistogram() const {
  Histogram made{.min = min_,
                 .max = max_,
                 .count = static_cast<double>(count_),
                 .sum = sum_,
                 .sum_squares = sum_squares_};
  for (size_t i = 0; i < buckets_.size(); ++i)
    AddBucket(Limits()[i], static_cast<double>(buckets_[i]), &made);
  EndBuckets(&made);
  return made;
}

Histogram OfWholeNumbers(std::span<const uint64_t> counts) {
  Histogram made;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto number = static_cast<double>(i), count = static_cast<double>(counts[i]);
    if (count > 0 && made.count == 0) made.min = number;
    if (count > 0) made.max = number;
    made.count += count;
    made.sum += number * count;
    made.sum_squares += number * number * count;
    AddBucket(number + 0.5, count, &made);
  }
  EndBuckets(&made);
  return made;
}

}  // namespace leat::tensorboard

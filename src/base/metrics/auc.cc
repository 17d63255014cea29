#include "base/metrics/auc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/encoding/varint.h"

namespace leat::metrics {
namespace {

// More than any stream holds, and a sum of kBins such counts still fits 64 bits.
constexpr uint64_t kMaxCount = uint64_t{1} << 48;

template <class T>
double AreaUnder(std::span<const T> positive, std::span<const T> negative) {
  double below = 0, won = 0, all_positive = 0;
  for (size_t i = 0; i < positive.size(); ++i) {
    const auto p = static_cast<double>(positive[i]), n = static_cast<double>(negative[i]);
    won += p * (below + n / 2);
    below += n;
    all_positive += p;
  }
  if (below == 0 || all_positive == 0) return std::numeric_limits<double>::quiet_NaN();
  return won / (below * all_positive);
}

}  // namespace

double AucOf(std::span<const uint64_t> positive, std::span<const uint64_t> negative) {
  return AreaUnder(positive, negative);
}
double AucOf(std::span<const double> positive, std::span<const double> negative) {
  return AreaUnder(positive, negative);
}

void AucCounts::Merge(const AucCounts& other) {
  for (size_t i = 0; i < kBins; ++i) {
    positive_[i] += other.positive_[i];
    negative_[i] += other.negative_[i];
  }
}

void AucCounts::Subtract(const AucCounts& earlier) {
  for (size_t i = 0; i < kBins; ++i) {
    positive_[i] -= earlier.positive_[i];
    negative_[i] -= earlier.negative_[i];
  }
}

uint64_t AucCounts::positives() const {
  return std::accumulate(positive_.begin(), positive_.end(), uint64_t{0});
}
uint64_t AucCounts::negatives() const {
  return std::accumulate(negative_.begin(), negative_.end(), uint64_t{0});
}

double AucCounts::Auc() const {
  return AucOf(std::span<const uint64_t>(positive_), std::span<const uint64_t>(negative_));
}

Bytes AucCounts::Encode() const {
  ByteWriter out;
  uint32_t next = 0;
  for (uint32_t i = 0; i < kBins; ++i) {
    if (positive_[i] == 0 && negative_[i] == 0) continue;
    PutVarint(i - next, &out);
    PutVarint(positive_[i], &out);
    PutVarint(negative_[i], &out);
    next = i + 1;
  }
  return out.Take();
}

Result<AucCounts> AucCounts::Decode(ByteView bytes) {
  AucCounts counts;
  ByteReader in(bytes);
  uint64_t next = 0;
  while (in.remaining() > 0) {
    const uint64_t gap = GetVarint(&in), positive = GetVarint(&in), negative = GetVarint(&in);
    if (!in.ok() || gap >= kBins - next || positive > kMaxCount || negative > kMaxCount) {
      return Status(Code::kDataLoss, "AUC histogram: invalid bin or count at bin " + std::to_string(next));
    }
    counts.positive_[next + gap] = positive;
    counts.negative_[next + gap] = negative;
    next += gap + 1;
  }
  if (!in.ok()) return Status(Code::kDataLoss, "AUC histogram: truncated");
  return counts;
}

// ---- with forgetting

// Σ factor^k over the batch, divided by its events, is the weight of one event.
FadingWeights WeightsOf(double factor, uint64_t events) {
  const double before = std::pow(factor, static_cast<double>(events));
  return {.before = before, .mean = (1 - before) / (1 - factor)};
}

void FadingScores::Add(const ScoreSums& batch) {
  if (batch.events == 0) return;
  const auto [before, mean] = WeightsOf(factor_, batch.events);
  const double each = mean / static_cast<double>(batch.events);
  weight_ = before * weight_ + mean;
  loss_ = before * loss_ + each * batch.loss;
  correct_ = before * correct_ + each * batch.correct;
  absolute_error_ = before * absolute_error_ + each * batch.absolute_error;
}

FadingAuc::FadingAuc(double factor)
    : factor_(factor), positive_(AucCounts::kBins), negative_(AucCounts::kBins) {}

void FadingAuc::Add(const AucCounts& earlier, const AucCounts& now) {
  const uint64_t all = now.positives() + now.negatives(), old = earlier.positives() + earlier.negatives();
  if (all <= old) return;
  const auto [before, mean] = WeightsOf(factor_, all - old);
  const double each = mean / static_cast<double>(all - old);
  const auto add = [&](const std::vector<uint64_t>& then, const std::vector<uint64_t>& counts,
                       std::vector<double>* sums) {
    for (size_t i = 0; i < counts.size(); ++i)
      (*sums)[i] = before * (*sums)[i] + each * static_cast<double>(counts[i] - std::min(then[i], counts[i]));
  };
  add(earlier.positive(), now.positive(), &positive_);
  add(earlier.negative(), now.negative(), &negative_);
}

double FadingAuc::Auc() const {
  return AucOf(std::span<const double>(positive_), std::span<const double>(negative_));
}

}  // namespace leat::metrics

#include "base/metrics/auc.h"

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

}  // namespace leat::metrics

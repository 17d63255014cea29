#include "base/metrics/share.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/rng.h"

namespace leat::metrics {

namespace {

// More than any stream holds; sums of such counts are exact in a double.
constexpr uint64_t kMaxShareCount = uint64_t{1} << 48;
constexpr double kMaxFloat = std::numeric_limits<float>::max();

size_t BinOf(uint64_t category, size_t categories, size_t bins) {
  return categories <= bins ? category : Mix(category) % bins;
}

// Adds the numbers value(0) to value(count - 1). Relative to the first of them, so that nothing is lost for
// numbers that are far from 0 and close to each other.
template <class Value>
void AddNumbers(size_t count, Value value, Distribution* to) {
  if (count == 0) return;
  const double first = value(0);
  double sum = 0, squares = 0;
  for (size_t i = 1; i < count; ++i) {
    const double x = value(i) - first;
    sum += x;
    squares += x * x;
  }
  const auto n = static_cast<double>(count);
  Distribution batch;
  batch.weight = n;
  batch.mean = first + sum / n;
  batch.squares = std::max(0.0, squares - sum * sum / n);
  to->Merge(batch);
}

void AddLabels(const ShareLayout& layout, std::span<const float> labels, std::span<const uint32_t> batch,
               Distribution* to) {
  const size_t each = layout.labels;
  if (layout.classes == 0) {
    AddNumbers(
        batch.size() * each, [&](size_t i) { return double{labels[batch[i / each] * each + i % each]}; }, to);
    return;
  }
  const auto classes = static_cast<float>(layout.classes);
  for (const uint32_t row : batch) {
    for (const float label : labels.subspan(row * each, each)) {
      if (!(label >= 0 && label < classes)) continue;
      // A probability of class 1 counts as in the accuracy.
      const auto category = layout.classes == 2 ? uint64_t{label >= 0.5f} : static_cast<uint64_t>(label);
      to->Count(BinOf(category, layout.classes, to->bins.size()));
    }
  }
}

void AddFeature(const ShareLayout& layout, const ShareLayout::Feature& feature,
                std::span<const float> features, std::span<const uint32_t> batch, Distribution* to) {
  using Kind = ShareLayout::Feature::Kind;
  // Evenly spread over the batch.
  const size_t stride = (batch.size() + Share::kFeatureRows - 1) / Share::kFeatureRows;
  const size_t rows = (batch.size() + stride - 1) / stride;
  const auto at = [&](size_t i) {
    return &features[size_t{batch[i * stride]} * layout.width + feature.column];
  };
  if (feature.kind == Kind::kNumber)
    return AddNumbers(
        rows, [&](size_t i) { return double{*at(i)}; }, to);
  const size_t categories = feature.categories, bins = to->bins.size();
  for (size_t i = 0; i < rows; ++i) {
    const float* const columns = at(i);
    if (feature.kind == Kind::kId) {
      if (*columns >= 0 && *columns < static_cast<float>(categories))
        to->Count(BinOf(static_cast<uint64_t>(*columns), categories, bins));
      continue;
    }
    const auto category = static_cast<size_t>(
        std::find_if(columns, columns + categories, [](float x) { return x != 0; }) - columns);
    to->Count(category == categories ? bins - 1 : BinOf(category, categories, bins - 1));
  }
}

Distribution Empty(uint32_t bins) {
  Distribution empty;
  empty.bins.resize(bins);
  return empty;
}

// Whether `now` can be a later state of `earlier`.
bool Continues(const Distribution& earlier, const Distribution& now) {
  return now.bins.size() == earlier.bins.size() && now.weight >= earlier.weight &&
         std::ranges::equal(now.bins, earlier.bins, std::greater_equal<double>());
}

Distribution Difference(const Distribution& now, const Distribution& earlier) {
  Distribution added = Empty(static_cast<uint32_t>(now.bins.size()));
  added.weight = now.weight - earlier.weight;
  if (added.weight <= 0) return added;
  for (size_t i = 0; i < now.bins.size(); ++i) added.bins[i] = now.bins[i] - earlier.bins[i];
  // Merge, solved for what was merged.
  added.mean = now.mean + (now.mean - earlier.mean) * (earlier.weight / added.weight);
  const double apart = added.mean - earlier.mean;
  added.squares = std::max(
      0.0, now.squares - earlier.squares - apart * apart * earlier.weight * (added.weight / now.weight));
  return added;
}

void Put(const Distribution& d, ByteWriter* out) {
  for (const double count : d.bins) out->Put(static_cast<uint64_t>(count));
  if (!d.bins.empty()) return;
  out->Put(static_cast<uint64_t>(d.weight));
  out->Put(d.mean);
  out->Put(d.squares);
}

double GetCount(ByteReader* in) {
  const auto count = in->Get<uint64_t>();
  if (count > kMaxShareCount) in->Fail();
  return static_cast<double>(count);
}

void Get(ByteReader* in, Distribution* d) {
  for (double& count : d->bins) {
    count = GetCount(in);
    d->weight += count;
  }
  if (!d->bins.empty()) return;
  d->weight = GetCount(in);
  d->mean = in->Get<double>();
  d->squares = in->Get<double>();
  // Negated, because of NaN.
  if (!(std::abs(d->mean) <= kMaxFloat)) in->Fail();
  if (!(d->squares >= 0 && d->squares <= 4 * kMaxFloat * kMaxFloat * d->weight)) in->Fail();
}

}  // namespace

uint32_t ShareLayout::Feature::bins() const {
  switch (kind) {
    case Kind::kNumber:
      return 0;
    case Kind::kOneHot:
      return std::min(categories, kFeatureBins - 1) + 1;  // the last: none of them
    case Kind::kId:
      return std::min(categories, kFeatureBins);
  }
  return 0;
}

uint32_t ShareLayout::label_bins() const {
  return std::min(classes, kLabelBins);
}

void Distribution::Merge(const Distribution& other) {
  if (other.weight <= 0) return;
  for (size_t i = 0; i < other.bins.size(); ++i) bins[i] += other.bins[i];
  const double all = weight + other.weight, apart = other.mean - mean;
  mean += apart * (other.weight / all);
  squares += other.squares + apart * apart * weight * (other.weight / all);
  weight = all;
}

void Distribution::Fade(double factor) {
  weight *= factor;
  squares *= factor;
  for (double& bin : bins) bin *= factor;
}

Share::Share(const ShareLayout& layout) : label_(Empty(layout.label_bins())) {
  for (const auto& feature : layout.features) features_.push_back(Empty(feature.bins()));
}

void Share::Add(const ShareLayout& layout, std::span<const float> features, std::span<const float> labels,
                std::span<const uint32_t> batch, double split) {
  if (batch.empty()) return;
  events_ += static_cast<double>(batch.size());
  splits_ += split;
  if (layout.labels > 0) AddLabels(layout, labels, batch, &label_);
  for (size_t f = 0; f < features_.size(); ++f)
    AddFeature(layout, layout.features[f], features, batch, &features_[f]);
}

std::optional<Share> Share::Since(const Share& earlier) const {
  const bool later = events_ >= earlier.events_ && splits_ >= earlier.splits_ &&
                     Continues(earlier.label_, label_) &&
                     std::ranges::equal(earlier.features_, features_, Continues);
  if (!later) return std::nullopt;
  Share added = *this;
  added.events_ -= earlier.events_;
  added.splits_ -= earlier.splits_;
  added.label_ = Difference(label_, earlier.label_);
  for (size_t f = 0; f < features_.size(); ++f)
    added.features_[f] = Difference(features_[f], earlier.features_[f]);
  return added;
}

void Share::Merge(const Share& other) {
  events_ += other.events_;
  splits_ += other.splits_;
  label_.Merge(other.label_);
  for (size_t f = 0; f < features_.size(); ++f) features_[f].Merge(other.features_[f]);
}

void Share::Fade(double factor) {
  events_ *= factor;
  splits_ *= factor;
  label_.Fade(factor);
  for (auto& feature : features_) feature.Fade(factor);
}

Bytes Share::Encode() const {
  ByteWriter out;
  out.Put(static_cast<uint64_t>(events_));
  out.Put(splits_);
  Put(label_, &out);
  for (const auto& feature : features_) Put(feature, &out);
  return out.Take();
}

Result<Share> Share::Decode(const ShareLayout& layout, ByteView bytes) {
  Share share(layout);
  ByteReader in(bytes);
  share.events_ = GetCount(&in);
  share.splits_ = in.Get<double>();
  if (!(share.splits_ >= 0 && share.splits_ <= static_cast<double>(kMaxShareCount))) in.Fail();
  Get(&in, &share.label_);
  for (auto& feature : share.features_) Get(&in, &feature);
  if (in.Done()) return share;
  return Status(Code::kDataLoss, "share of a worker: " + std::to_string(bytes.size()) +
                                     " bytes that do not fit the job, or an invalid number");
}

double Skew(const Distribution& share, const Distribution& whole) {
  if (share.weight <= 0 || whole.weight <= 0) return std::numeric_limits<double>::quiet_NaN();
  if (whole.bins.empty()) {
    // Sums that were rounded must not make a constant vary.
    constexpr double kConstant = 1e-6;
    const double deviation = std::sqrt(whole.variance());
    const bool constant = deviation <= kConstant * std::abs(whole.mean);
    return constant ? 0 : std::abs(share.mean - whole.mean) / deviation;
  }
  double apart = 0;
  for (size_t i = 0; i < whole.bins.size(); ++i)
    apart += std::abs(share.bins[i] / share.weight - whole.bins[i] / whole.weight);
  return apart / 2;
}

double EffectiveSplits(const SplitSums& share, const SplitSums& whole) {
  const double rest = whole.events - share.events;
  if (share.events <= 0 || rest <= 0) return 0;
  const double rest_squares = std::max(0.0, whole.squares - share.squares);
  const double outside = rest / whole.events;
  return 1 /
         (outside * outside * (share.squares / (share.events * share.events) + rest_squares / (rest * rest)));
}

double SkewLimit(const Distribution& whole, double n, double alpha) {
  if (n <= 0 || whole.weight <= 0) return std::numeric_limits<double>::infinity();
  if (whole.bins.empty()) return std::sqrt(2 * std::log(2 / alpha) / n);
  double expected = 0;
  for (const double bin : whole.bins) {
    const double p = std::clamp(bin / whole.weight, 0.0, 1.0);
    expected += std::sqrt(p * (1 - p) / n);
  }
  return expected / 2 + std::sqrt(std::log(1 / alpha) / (2 * n));
}

}  // namespace leat::metrics

#include "base/metrics/share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"

namespace leat::metrics {
namespace {

using Kind = ShareLayout::Feature::Kind;

// Two numbers, a category of three values, an id below ten, a category of a hundred, an id below a thousand.
ShareLayout Layout(uint32_t classes = 3, uint32_t labels = 2) {
  return {.width = 107,
          .labels = labels,
          .classes = classes,
          .features = {{.name = "amount", .column = 0},
                       {.name = "time", .column = 1},
                       {.name = "country", .kind = Kind::kOneHot, .column = 2, .categories = 3},
                       {.name = "item", .kind = Kind::kId, .column = 5, .categories = 10},
                       {.name = "card", .kind = Kind::kOneHot, .column = 6, .categories = 100},
                       {.name = "shop", .kind = Kind::kId, .column = 106, .categories = 1000}}};
}

struct Data {
  std::vector<float> features, labels;
};

// Rows of Layout(). Some have none of the categories; some labels are no class.
Data MakeRows(size_t count, uint64_t seed, uint32_t labels = 2) {
  Rng rng(seed);
  Data data;
  for (size_t i = 0; i < count; ++i) {
    std::vector<float> row(107);
    row[0] = static_cast<float>(rng.Normal() * 3 + 1);
    row[1] = 1.7e9f + static_cast<float>(rng.Below(8)) * 128;  // exact in a float
    if (const uint64_t country = rng.Below(4); country < 3) row[2 + country] = 1;
    row[5] = static_cast<float>(rng.Below(10));
    row[6 + rng.Below(100)] = 1;
    row[106] = static_cast<float>(rng.Below(1000));
    data.features.insert(data.features.end(), row.begin(), row.end());
    for (uint32_t l = 0; l < labels; ++l) data.labels.push_back(static_cast<float>(rng.Below(5)) - 1);
  }
  return data;
}

// Adds rows [begin, end) in batches.
void AddRows(const ShareLayout& layout, const Data& data, uint32_t begin, uint32_t end, uint32_t batch_size,
             Share* share) {
  for (uint32_t at = begin; at < end; at += batch_size) {
    std::vector<uint32_t> batch(std::min(batch_size, end - at));
    std::iota(batch.begin(), batch.end(), at);
    share->Add(layout, data.features, data.labels, batch, 0.25);
  }
}

// The mean and Σ (x - mean)², in two passes.
std::pair<double, double> Moments(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0;
  for (const double x : values) squares += (x - mean) * (x - mean);
  return {mean, squares};
}

void ExpectNear(const Distribution& a, const Distribution& b) {
  EXPECT_NEAR(a.weight, b.weight, 1e-9 * (1 + b.weight));
  EXPECT_NEAR(a.mean, b.mean, 1e-9 * (1 + std::abs(b.mean)));
  EXPECT_NEAR(a.squares, b.squares, 1e-6 * (1 + b.squares));
  ASSERT_EQ(a.bins.size(), b.bins.size());
  for (size_t i = 0; i < a.bins.size(); ++i) EXPECT_NEAR(a.bins[i], b.bins[i], 1e-9 * (1 + b.bins[i]));
}

void ExpectNear(const Share& a, const Share& b) {
  EXPECT_NEAR(a.events(), b.events(), 1e-9 * (1 + b.events()));
  EXPECT_NEAR(a.splits(), b.splits(), 1e-9 * (1 + b.splits()));
  ExpectNear(a.label(), b.label());
  ASSERT_EQ(a.features().size(), b.features().size());
  for (size_t f = 0; f < a.features().size(); ++f) ExpectNear(a.features()[f], b.features()[f]);
}

TEST(Share, IsWhatCountingTheRowsGives) {
  const ShareLayout layout = Layout();
  const uint32_t rows = 1000;
  const Data data = MakeRows(rows, 1);
  Share share(layout);
  AddRows(layout, data, 0, rows, 30, &share);
  EXPECT_EQ(share.events(), rows);
  EXPECT_EQ(share.splits(), 34 * 0.25) << "of batches, the last of them short";

  std::vector<double> labels(3), countries(4), items(10);
  std::vector<double> amounts, times;
  for (uint32_t i = 0; i < rows; ++i) {
    const float* const row = &data.features[size_t{i} * layout.width];
    for (size_t l = 0; l < 2; ++l) {
      const float label = data.labels[2 * i + l];
      if (label >= 0 && label < 3) ++labels[static_cast<size_t>(label)];
    }
    amounts.push_back(row[0]);
    times.push_back(row[1]);
    ++countries[row[2] != 0 ? 0 : row[3] != 0 ? 1 : row[4] != 0 ? 2 : 3];
    ++items[static_cast<size_t>(row[5])];
  }
  EXPECT_EQ(share.label().bins, labels);
  EXPECT_EQ(share.label().weight, labels[0] + labels[1] + labels[2]);
  for (const auto& [feature, values] : {std::pair{0, &amounts}, std::pair{1, &times}}) {
    const auto [mean, squares] = Moments(*values);
    const Distribution& number = share.features()[static_cast<size_t>(feature)];
    EXPECT_EQ(number.weight, rows);
    EXPECT_NEAR(number.mean, mean, 1e-12 * std::abs(mean));
    EXPECT_NEAR(number.squares, squares, 1e-6 * squares);
    EXPECT_NEAR(number.variance(), squares / rows, 1e-6 * squares / rows);
  }
  EXPECT_EQ(share.features()[2].bins, countries);
  EXPECT_EQ(share.features()[3].bins, items);
  // Several categories share a bin: the bin of a row alone.
  for (const size_t folded : {4, 5}) {
    std::vector<double> bins(ShareLayout::kFeatureBins);
    for (uint32_t i = 0; i < rows; ++i) {
      Share alone(layout);
      AddRows(layout, data, i, i + 1, 1, &alone);
      const auto& bins_of = alone.features()[folded].bins;
      ++bins[static_cast<size_t>(std::ranges::find(bins_of, 1.0) - bins_of.begin())];
    }
    EXPECT_EQ(share.features()[folded].bins, bins);
    EXPECT_EQ(share.features()[folded].weight, rows);
  }
  EXPECT_EQ(share.features()[4].bins.back(), 0) << "each row has a card";
}

TEST(Share, ACategoryIsAlwaysInTheSameBin) {
  const ShareLayout layout = Layout(1000, 1);
  Data data = MakeRows(1, 2, 1);
  const std::vector<uint32_t> row{0};
  std::vector<int> used(ShareLayout::kLabelBins);
  for (int label = 0; label < 1000; ++label) {
    data.labels[0] = static_cast<float>(label);
    data.features[106] = static_cast<float>(label);
    Share once(layout), twice(layout);
    once.Add(layout, data.features, data.labels, row, 1);
    for (int i = 0; i < 2; ++i) twice.Add(layout, data.features, data.labels, row, 1);
    ASSERT_EQ(once.label().bins.size(), ShareLayout::kLabelBins);
    for (size_t bin = 0; bin < once.label().bins.size(); ++bin) {
      EXPECT_EQ(twice.label().bins[bin], 2 * once.label().bins[bin]);
      used[bin] += once.label().bins[bin] > 0;
    }
    for (size_t bin = 0; bin < ShareLayout::kFeatureBins; ++bin)
      EXPECT_EQ(twice.features()[5].bins[bin], 2 * once.features()[5].bins[bin]);
  }
  EXPECT_EQ(std::ranges::count(used, 0), 0) << "of a thousand classes, each bin has some";
}

TEST(Share, OfALargeBatchSomeRowsAreLookedAtForTheirFeatures) {
  const ShareLayout layout = Layout();
  const Data data = MakeRows(200, 3);
  for (const uint32_t size : {31u, 32u, 33u, 64u, 65u, 200u}) {
    Share share(layout);
    AddRows(layout, data, 0, size, size, &share);
    EXPECT_EQ(share.events(), size);
    const double looked_at = share.features()[0].weight;
    EXPECT_LE(looked_at, Share::kFeatureRows);
    EXPECT_GE(looked_at, std::min<double>(size, Share::kFeatureRows / 2.0)) << size;
    double classes = 0;
    for (uint32_t i = 0; i < 2 * size; ++i) classes += data.labels[i] >= 0 && data.labels[i] < 3;
    EXPECT_EQ(share.label().weight, classes) << "all labels count";
  }
  // The rows that it looks at are not only the first.
  Share share(layout);
  Data last = MakeRows(200, 3);
  for (uint32_t i = 100; i < 200; ++i) last.features[size_t{i} * layout.width] = 1000;
  AddRows(layout, last, 0, 200, 200, &share);
  EXPECT_NEAR(share.features()[0].mean, 500, 60);
}

TEST(Share, OfAProbabilityOfClassOneIsByHalves) {
  const ShareLayout layout = Layout(2, 1);
  Data data = MakeRows(6, 4, 1);
  data.labels = {0, 1, 0.25f, 0.5f, 0.75f, std::numeric_limits<float>::quiet_NaN()};
  Share share(layout);
  AddRows(layout, data, 0, 6, 6, &share);
  EXPECT_EQ(share.label().bins, (std::vector<double>{2, 3}));
}

TEST(Share, OfANumberToPredictHasMoments) {
  const ShareLayout layout = Layout(0, 2);
  const Data data = MakeRows(500, 5);
  Share share(layout);
  AddRows(layout, data, 0, 500, 64, &share);
  const auto [mean, squares] = Moments(std::vector<double>(data.labels.begin(), data.labels.end()));
  EXPECT_EQ(share.label().weight, 1000);
  EXPECT_NEAR(share.label().mean, mean, 1e-12);
  EXPECT_NEAR(share.label().squares, squares, 1e-9);
  EXPECT_TRUE(share.label().bins.empty());
  Share without(Layout(0, 0));
  AddRows(Layout(0, 0), data, 0, 500, 64, &without);
  EXPECT_EQ(without.label().weight, 0) << "there are no labels";
}

TEST(Share, PartsMergeAndAnEarlierStateSubtracts) {
  for (const uint32_t classes : {0u, 3u}) {
    const ShareLayout layout = Layout(classes);
    const Data data = MakeRows(900, 6);
    Share first(layout), second(layout), all(layout);
    AddRows(layout, data, 0, 300, 30, &first);
    AddRows(layout, data, 300, 900, 30, &second);
    AddRows(layout, data, 0, 900, 30, &all);
    Share merged = first;
    merged.Merge(second);
    ExpectNear(merged, all);
    const auto since = all.Since(first);
    ASSERT_TRUE(since);
    ExpectNear(*since, second);
    const auto nothing = all.Since(all);
    ASSERT_TRUE(nothing);
    ExpectNear(*nothing, Share(layout));
    ExpectNear(*all.Since(Share(layout)), all);
    EXPECT_FALSE(first.Since(all)) << "a later state";
    EXPECT_FALSE(all.Since(Share(Layout(2)))) << "of another layout";
  }
}

TEST(Share, FadesInAllItsWeights) {
  const ShareLayout layout = Layout();
  const Data data = MakeRows(400, 7);
  Share old(layout), now(layout);
  AddRows(layout, data, 0, 200, 20, &old);
  AddRows(layout, data, 200, 400, 20, &now);
  const double mean = old.features()[0].mean, variance = old.features()[0].variance();
  old.Fade(0.25);
  EXPECT_EQ(old.events(), 50);
  EXPECT_DOUBLE_EQ(old.features()[0].mean, mean);
  EXPECT_DOUBLE_EQ(old.features()[0].variance(), variance);
  const double before = old.label().bins[1], added = now.label().bins[1];
  old.Merge(now);
  EXPECT_EQ(old.label().bins[1], before + added);
  // As a weighted mean of the rows.
  double sum = 0;
  for (uint32_t i = 0; i < 400; ++i)
    sum += (i < 200 ? 0.25 : 1) * double{data.features[size_t{i} * layout.width]};
  EXPECT_NEAR(old.features()[0].mean, sum / 250, 1e-12);
  EXPECT_EQ(old.features()[0].weight, 250);
}

TEST(Share, ComesBackFromBytes) {
  for (const uint32_t classes : {0u, 3u, 1000u}) {
    const ShareLayout layout = Layout(classes);
    const Data data = MakeRows(700, 8);
    Share share(layout);
    AddRows(layout, data, 0, 700, 50, &share);
    const Bytes bytes = share.Encode();
    EXPECT_LT(bytes.size(), 3000u);
    const auto back = Share::Decode(layout, bytes);
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    ExpectNear(*back, share);
    EXPECT_EQ(back->Encode(), bytes);
    EXPECT_EQ(Share::Decode(layout, ByteView(bytes).first(bytes.size() - 1)).status().code(),
              Code::kDataLoss);
    Bytes longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(Share::Decode(layout, longer).ok());
    EXPECT_FALSE(Share::Decode(layout, {}).ok());
    ShareLayout other = layout;
    other.features.pop_back();
    EXPECT_FALSE(Share::Decode(other, bytes).ok());
  }
}

TEST(Share, TheLargestHasAFewKilobytes) {
  ShareLayout layout{.width = 64, .labels = 1, .classes = 100'000};
  for (uint32_t f = 0; f < ShareLayout::kMaxFeatures; ++f)
    layout.features.push_back({.name = "x", .kind = Kind::kId, .column = f, .categories = 100'000});
  EXPECT_LT(Share(layout).Encode().size(), 18'000u);
}

TEST(Share, NumbersThatNoShareHasAreRefused) {
  const ShareLayout layout{.width = 1, .labels = 0, .classes = 0, .features = {{.name = "x", .column = 0}}};
  // Events, splits, an empty label, and a feature.
  const auto decode = [&](uint64_t events, double splits, uint64_t weight, double mean, double squares) {
    ByteWriter out;
    out.Put(events);
    out.Put(splits);
    out.Put(uint64_t{0});
    out.Put(0.0);
    out.Put(0.0);
    out.Put(weight);
    out.Put(mean);
    out.Put(squares);
    return Share::Decode(layout, out.view()).ok();
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(decode(10, 2.5, 8, -3, 5));
  EXPECT_FALSE(decode(~uint64_t{0}, 2.5, 8, -3, 5));
  EXPECT_FALSE(decode(10, nan, 8, -3, 5));
  EXPECT_FALSE(decode(10, -1, 8, -3, 5));
  EXPECT_FALSE(decode(10, inf, 8, -3, 5));
  EXPECT_FALSE(decode(10, 2.5, uint64_t{1} << 49, -3, 5));
  EXPECT_FALSE(decode(10, 2.5, 8, nan, 5));
  EXPECT_FALSE(decode(10, 2.5, 8, -inf, 5));
  EXPECT_FALSE(decode(10, 2.5, 8, 1e300, 5));
  EXPECT_FALSE(decode(10, 2.5, 8, -3, -5));
  EXPECT_FALSE(decode(10, 2.5, 8, -3, nan));
  EXPECT_FALSE(decode(10, 2.5, 8, -3, 1e300));
  EXPECT_FALSE(decode(10, 2.5, 0, -3, 5)) << "squares of nothing";
}

// Whatever a peer sends: it is refused, or a share whose later use is defined.
TEST(Share, AnyBytesAreSafeToDecode) {
  const ShareLayout layout = Layout();
  const Data data = MakeRows(100, 9);
  Share share(layout);
  AddRows(layout, data, 0, 100, 10, &share);
  const Bytes good = share.Encode();
  Rng rng(10);
  for (int round = 0; round < 5000; ++round) {
    Bytes bytes = good;
    for (uint64_t n = 1 + rng.Below(3); n > 0; --n)
      bytes[rng.Below(bytes.size())] = std::byte(rng.Below(256));
    const auto decoded = Share::Decode(layout, bytes);
    if (!decoded.ok()) continue;
    if (auto since = decoded->Since(share)) {
      since->Fade(0.5);
      since->Merge(*decoded);
      for (const auto& feature : since->features()) {
        EXPECT_TRUE(std::isfinite(feature.mean));
        EXPECT_TRUE(feature.variance() >= 0 && std::isfinite(feature.variance()));
      }
    }
  }
}

}  // namespace
}  // namespace leat::metrics

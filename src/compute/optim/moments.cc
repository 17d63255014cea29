#include "compute/optim/moments.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace leat::optim {
namespace {

static_assert(sizeof(float) == 4 && sizeof(double) == 8);

// Word of a feature's count, mean (field 1) or m2 (field 2).
size_t WordOf(std::span<const float> words, size_t field, size_t feature) {
  const size_t features = words.size() / kMomentWords;
  LEAT_CHECK(words.size() % kMomentWords == 0 && feature < features);
  return 2 * (field * features + feature);
}

template <class T>
T Load(std::span<const float> words, size_t field, size_t feature) {
  T value;
  std::memcpy(&value, words.data() + WordOf(words, field, feature), sizeof(T));
  return value;
}

template <class T>
void Store(std::span<float> words, size_t field, size_t feature, T value) {
  std::memcpy(words.data() + WordOf(words, field, feature), &value, sizeof(T));
}

}  // namespace

Moments Merged(const Moments& a, const Moments& b) {
  if (b.count == 0) return a;
  if (a.count == 0) return b;
  const auto of_a = static_cast<double>(a.count), of_b = static_cast<double>(b.count);
  const double n = of_a + of_b, delta = b.mean - a.mean;
  return {a.count + b.count, a.mean + delta * (of_b / n), a.m2 + b.m2 + delta * delta * (of_a * (of_b / n))};
}

Moments GetMoments(std::span<const float> words, size_t feature) {
  return {Load<uint64_t>(words, 0, feature), Load<double>(words, 1, feature),
          Load<double>(words, 2, feature)};
}

void PutMoments(std::span<float> words, size_t feature, const Moments& moments) {
  Store(words, 0, feature, moments.count);
  Store(words, 1, feature, moments.mean);
  Store(words, 2, feature, moments.m2);
}

void MergeMoments(std::span<float> words, std::span<const float> more) {
  LEAT_CHECK(words.size() == more.size() && words.size() % kMomentWords == 0);
  for (size_t i = 0; i < words.size() / kMomentWords; ++i) {
    PutMoments(words, i, Merged(GetMoments(words, i), GetMoments(more, i)));
  }
}

Scaling ScalingOf(const Moments& moments) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (moments.count < 2 || !(moments.m2 > 0) || !(std::abs(moments.mean) <= kLargest)) return {};
  const double factor = std::sqrt(static_cast<double>(moments.count) / moments.m2);
  if (!(factor <= kLargest)) return {};
  const auto shift = static_cast<float>(moments.mean);
  return {shift, static_cast<float>(moments.mean - static_cast<double>(shift)), static_cast<float>(factor)};
}

}  // namespace leat::optim

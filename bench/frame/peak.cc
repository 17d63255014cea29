#include "peak.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace leat::bench {
namespace {

constexpr size_t kRounds = 20000;
// Number of independent sums: enough to hide the latency of two units, few enough for 16 registers.
constexpr size_t kSums = 10;

// Returns its result so that the compiler does not remove the loop. `Lanes` is a vector type.
template <class Lanes>
[[gnu::always_inline]] inline float Spin(float factor) {
  Lanes sums[kSums];
  for (size_t i = 0; i < kSums; ++i) sums[i] = Lanes{} + static_cast<float>(i);
  const Lanes x = Lanes{} + factor;
  for (size_t r = 0; r < kRounds; ++r) {
#pragma GCC unroll 10
    for (size_t i = 0; i < kSums; ++i) sums[i] = sums[i] * x + x;
  }
  float total = 0;
  for (size_t i = 0; i < kSums; ++i) total += sums[i][0];
  return total;
}

using F16 = float __attribute__((vector_size(64)));
using F8 = float __attribute__((vector_size(32)));
using F4 = float __attribute__((vector_size(16)));

#if defined(__x86_64__)
__attribute__((target("avx512f"), noinline)) float Spin16(float factor) {
  return Spin<F16>(factor);
}
__attribute__((target("avx2,fma"), noinline)) float Spin8(float factor) {
  return Spin<F8>(factor);
}
#endif
__attribute__((noinline)) float Spin4(float factor) {
  return Spin<F4>(factor);
}

double Best(float (*spin)(float), size_t lanes) {
  volatile float sink = 0;
  double best = 1e9;
  for (int i = 0; i < 200; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    sink = sink + spin(0.5f);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return 2.0 * static_cast<double>(kRounds * kSums * lanes) / best;
}

}  // namespace

double PeakFlops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return Best(Spin16, 16);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Best(Spin8, 8);
#endif
  return Best(Spin4, 4);
}

}  // namespace leat::bench

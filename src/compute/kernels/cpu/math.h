// Vectorisable elementary functions: no branches, tables or calls.
//
// Maximal errors in units in the last place, measured over all floats: exp 1.5, log 0.8, log1p 1.2, tanh 1.3,
// sigmoid 2.5, softplus 2, erf 2.5, expm1 3.6 (a sigmoid below 2^-126 becomes 0). The error of gelu is at
// most 1.5e-7 |x|. NaN stays NaN, overflow gives infinity, and exp underflows gradually. The polynomials are
// Chebyshev fits on the reduced ranges.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "compute/kernels/cpu/inline.h"

namespace leat::cpu {

// 2^n for n in [-127, 127]. -127 gives 0; there the callers' product is 0 anyway.
LEAT_INLINE float PowerOfTwo(int32_t n) {
  return std::bit_cast<float>((n + 127) << 23);
}

LEAT_INLINE float Exp(float x) {
  // Beyond these limits the result is 0 or infinity. NaN passes both comparisons.
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  // Adding 1.5 · 2^23 rounds to a whole number and leaves it in the lowest bits.
  constexpr float kRound = 12582912.0f;
  const float shifted = x * 1.44269504f + kRound;
  const float whole = shifted - kRound;
  const int32_t n = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  // ln 2 in two parts, so that whole · high is exact.
  float r = x - whole * 0.693359375f;
  r = r + whole * 2.12194440e-4f;
  float p = 0.00139261761f;
  p = p * r + 0.00836317307f;
  p = p * r + 0.0416665547f;
  p = p * r + 0.16666577f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  // In two steps, since 2^n may not fit a float.
  const int32_t half = n >> 1;
  return p * PowerOfTwo(half) * PowerOfTwo(n - half);
}

LEAT_INLINE float Log(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool subnormal = x < std::numeric_limits<float>::min();
  const float scaled = subnormal ? x * 0x1p23f : x;
  // m in [√½, √2) and n with scaled = m 2^n.
  const uint32_t bits = std::bit_cast<uint32_t>(scaled) - 0x3f3504f3u;
  const int32_t n = static_cast<int32_t>(bits) >> 23;
  const float f = std::bit_cast<float>((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float exponent = static_cast<float>(n) - (subnormal ? 23.0f : 0.0f);
  float p = 0.0697161147f;
  p = p * f - 0.114797338f;
  p = p * f + 0.116854199f;
  p = p * f - 0.124256873f;
  p = p * f + 0.142490576f;
  p = p * f - 0.166678023f;
  p = p * f + 0.200007157f;
  p = p * f - 0.24999997f;
  p = p * f + 0.333333312f;
  float y = p * (f * f * f) + exponent * -2.12194440e-4f;
  y = y - 0.5f * (f * f);
  y = (f + y) + exponent * 0.693359375f;
  y = x == 0.0f ? -kInfinity : y;
  y = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : y;
  // Infinity and NaN are their own logarithms.
  return x < kInfinity ? y : x;
}

// log(1 + u) for u in [0, 1].
LEAT_INLINE float Log1p(float u) {
  const float w = 1.0f + u;
  // Corrects the rounding error of w to first order.
  return Log(w) + (u - (w - 1.0f)) / w;
}

LEAT_INLINE float Tanh(float x) {
  const float size = std::fabs(x);
  const float z = x * x;
  float p = -0.00609671417f;
  p = p * z + 0.020997179f;
  p = p * z - 0.0538509096f;
  p = p * z + 0.133327697f;
  p = p * z - 0.333333289f;
  const float small = p * z * x + x;
  const float large = std::copysign(1.0f - 2.0f / (Exp(2.0f * size) + 1.0f), x);
  return size < 0.625f ? small : (x == x ? large : x);
}

LEAT_INLINE float Sigmoid(float x) {
  return 1.0f / (1.0f + Exp(-x));
}

LEAT_INLINE float Expm1(float x) {
  float p = 0.00139261761f;
  p = p * x + 0.00836317307f;
  p = p * x + 0.0416665547f;
  p = p * x + 0.16666577f;
  p = p * x + 0.5f;
  const float small = p * (x * x) + x;
  return std::fabs(x) < 0.34f ? small : Exp(x) - 1.0f;
}

// log(1 + e^x)
LEAT_INLINE float Softplus(float x) {
  const float above = x > 0.0f ? x : 0.0f;
  return x == x ? above + Log1p(Exp(-std::fabs(x))) : x;
}

LEAT_INLINE float Erf(float x) {
  const float size = std::fabs(x);
  const float z = x * x;
  float p = -0.000621458536f;
  p = p * z + 0.00503437066f;
  p = p * z - 0.0267929478f;
  p = p * z + 0.112824966f;
  p = p * z - 0.376125545f;
  p = p * z + 1.12837916f;
  const float small = p * x;
  // 1 - e^-q with a polynomial q of the shifted |x|. From 4 on, erf is 1.
  const float t = (size < 4.0f ? size : 4.0f) - 0.875f;
  float q = -1.6411144e-06f;
  q = q * t + 3.46314276e-05f;
  q = q * t - 0.000349852659f;
  q = q * t + 0.00230518341f;
  q = q * t - 0.0114376472f;
  q = q * t + 0.0469458931f;
  q = q * t + 0.82652981f;
  q = q * t + 2.43022093f;
  q = q * t + 1.53282441f;
  const float large = std::copysign(1.0f - Exp(-q), x);
  return size < 0.875f ? small : (x == x ? large : x);
}

// Clamps x to the range outside which gelu is 0 or x. Farther out the formula would give 0 · ∞.
LEAT_INLINE float GeluRange(float x) {
  const float above = x < -40.0f ? -40.0f : x;
  return above > 40.0f ? 40.0f : above;
}

LEAT_INLINE float Gelu(float x) {
  const float inside = x < -40.0f ? -40.0f : x;
  return 0.5f * inside * (1.0f + Erf(inside * 0.707106781f));
}

LEAT_INLINE float GeluSlope(float x) {
  const float inside = GeluRange(x);
  const float bell = 0.398942280f * Exp(-0.5f * inside * inside);
  return 0.5f * (1.0f + Erf(inside * 0.707106781f)) + inside * bell;
}

LEAT_INLINE float GeluByTanh(float x) {
  const float inside = x < -40.0f ? -40.0f : x;
  const float u = inside * (0.797884561f + 0.0356774081f * inside * inside);
  return 0.5f * inside * (1.0f + Tanh(u));
}

LEAT_INLINE float GeluByTanhSlope(float x) {
  const float inside = GeluRange(x);
  const float square = inside * inside;
  const float t = Tanh(inside * (0.797884561f + 0.0356774081f * square));
  const float slope = 0.797884561f + 0.107032224f * square;
  return 0.5f * (1.0f + t) + 0.5f * inside * (1.0f - t * t) * slope;
}

// The derivative of x sigmoid(x).
LEAT_INLINE float SiluSlope(float x) {
  const float s = Sigmoid(x);
  return s * (1.0f + x * (1.0f - s));
}

// Cross entropy of sigmoid(x) against t, numerically stable.
LEAT_INLINE float SigmoidCrossEntropy(float x, float t) {
  return (x > 0.0f ? x : 0.0f) - x * t + Log1p(Exp(-std::fabs(x)));
}

}  // namespace leat::cpu

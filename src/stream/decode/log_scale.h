// log(1 + x) · scale + shift as float, several times as fast as std::log1p and always equal to it.
//
// A table of logarithms and a short polynomial give the value with a small error. If all values within a
// bound on the errors round to the same float, that is also what std::log1p leads to (Ziv 1991). Otherwise,
// less than once in 10,000 values of usual size, std::log1p decides.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace leat::stream {

// Immutable; thread-safe.
class LogScale {
 public:
  LogScale(double scale, double shift)
      : scale_(scale),
        shift_(shift),
        bound_(std::abs(scale) * kError + (std::abs(scale) * kMost + std::abs(shift)) * kRounding) {}

  // Equal to static_cast<float>(std::log1p(x) * scale + shift); NaN and infinite x likewise.
  float operator()(double x) const {
    if (x >= 0 && x < kLargest) [[likely]] {
      const double y = Approximate(1 + x) * scale_ + shift_;
      const auto low = static_cast<float>(y - bound_), high = static_cast<float>(y + bound_);
      if (low == high) [[likely]]
        return low;
    }
    return Exact(x);
  }

 private:
  static constexpr double kLargest = 1e300;
  static constexpr double kMost = 700;          // above any logarithm
  static constexpr double kError = 0x1p-40;     // above 2^-42.3, the polynomial's
  static constexpr double kRounding = 0x1p-50;  // above those of all operations, relative to the largest
  static constexpr int kBits = 7;               // leading bits of the mantissa, which select an entry

  struct Entry {
    double inverse;  // 1 / the middle of the entry's interval
    double log;      // logarithm of the middle
  };
  inline static const std::array<Entry, 1 << kBits> kTable = [] {
    std::array<Entry, 1 << kBits> table;
    for (size_t i = 0; i < table.size(); ++i) {
      const double middle = 1 + (static_cast<double>(i) + 0.5) / static_cast<double>(table.size());
      table[i].inverse = 1 / middle;
      table[i].log = -std::log(table[i].inverse);
    }
    return table;
  }();

  // log(u), u ≥ 1. With u = 2^k · m and 1 ≤ m < 2: k · log(2) + log(c) + log(m / c).
  static double Approximate(double u) {
    const auto bits = std::bit_cast<uint64_t>(u);
    const Entry& entry = kTable[bits >> (52 - kBits) & ((1 << kBits) - 1)];
    const auto k = static_cast<double>(static_cast<int32_t>(bits >> 52) - 1023);
    const auto m = std::bit_cast<double>((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
    const double r = m * entry.inverse - 1;  // |r| ≤ 2^-8
    const double r2 = r * r;
    return (k * 0.693147180559945309417 + entry.log) + (r - r2 * ((0.5 - r * (1.0 / 3)) + r2 * 0.25));
  }

  [[gnu::cold, gnu::noinline]] float Exact(double x) const {
    return static_cast<float>(std::log1p(x) * scale_ + shift_);
  }

  double scale_, shift_;
  double bound_;  // on the errors of the approximation and of its rounding
};

}  // namespace leat::stream

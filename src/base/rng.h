// Reproducible random numbers: the same on every machine.
//
// CounterRng is a pure function of (key, counter), so any server initialises a slice of a variable and any
// worker shuffles a split with the same result. Rng is a sequential generator for simulations and tests
// (xoshiro256++, Blackman and Vigna 2018). Nothing here is cryptographic. Rng is not thread-safe; everything
// else is.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>
#include <string_view>
#include <utility>

namespace leat {

// The finaliser of SplitMix64, a bijective hash (Steele, Lea, Flood 2014).
constexpr uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
constexpr uint64_t Mix(uint64_t a, uint64_t b) {
  return Mix(Mix(a) ^ b);
}

// FNV-1a hash of a name, the same on every machine.
constexpr uint64_t HashName(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

class CounterRng {
 public:
  explicit constexpr CounterRng(uint64_t key) : key_(Mix(key)) {}
  constexpr uint64_t Bits(uint64_t counter) const { return Mix(key_ ^ Mix(counter)); }
  // Uniform in [0, 1).
  constexpr double Uniform(uint64_t counter) const {
    return static_cast<double>(Bits(counter) >> 11) * 0x1p-53;
  }
  // Standard normal (Box and Muller 1958).
  double Normal(uint64_t counter) const {
    const double u = 1.0 - Uniform(2 * counter);
    const double v = Uniform(2 * counter + 1);
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }

 private:
  uint64_t key_;
};

class Rng {
 public:
  explicit Rng(uint64_t seed) {
    for (auto& word : state_) word = seed = Mix(seed);
  }
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }
  using result_type = uint64_t;

  uint64_t operator()() {
    const uint64_t result = Rotate(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }
  double Uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
  // Uniform in [0, n), n > 0 (Lemire 2019, without the rejection: the bias is below n / 2^64).
  uint64_t Below(uint64_t n) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>((*this)()) * n) >> 64);
  }
  bool Chance(double p) { return Uniform() < p; }
  double Normal() {
    const double u = 1.0 - Uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * Uniform());
  }
  double Exponential(double mean) { return -mean * std::log(1.0 - Uniform()); }

 private:
  static constexpr uint64_t Rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

// Fills `order` with a permutation of 0 … size-1 that depends only on the seed and the size (Fisher-Yates
// shuffle).
template <class T>
void Permutation(std::span<T> order, uint64_t seed) {
  Rng rng(seed);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<T>(i);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
}

}  // namespace leat

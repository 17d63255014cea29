// Events for benchmarks and tests: numbers with a learnable label, and a minimal event for counting.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/rng.h"

namespace leat::stream {

// Fast formatting of short decimal numbers, for event generators.

inline void AppendInteger(uint64_t value, std::string* out) {
  char text[20];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  out->append(text, end);
}

// `x` rounded to `digits` (0 to 9) decimals, without trailing zeros; |x| < 2^63 / 10^digits.
inline void AppendFixed(double x, int digits, std::string* out) {
  constexpr int64_t kPowers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
  const auto scaled = static_cast<int64_t>(x * static_cast<double>(kPowers[digits]) + (x < 0 ? -0.5 : 0.5));
  if (scaled < 0) out->push_back('-');
  const auto size = static_cast<uint64_t>(scaled < 0 ? -scaled : scaled);
  const auto power = static_cast<uint64_t>(kPowers[digits]);
  AppendInteger(size / power, out);
  uint64_t fraction = size % power;
  if (fraction == 0) return;
  char text[10];
  text[0] = '.';
  for (int i = digits; i > 0; --i, fraction /= 10) text[i] = static_cast<char>('0' + fraction % 10);
  int length = digits;
  while (text[length] == '0') --length;
  out->append(text, static_cast<size_t>(length) + 1);
}

// JSON objects with `features` standard normal numbers f0, f1, … and a label y: 1 if a fixed, non-linear
// function of the first of them plus a little noise is above 0. A pure function of the seed. Not thread-safe.
class SyntheticEvents {
 public:
  explicit SyntheticEvents(uint64_t seed, uint32_t features = 30) : rng_(seed), features_(features) {}
  // Appends the next event, without a line end.
  void Next(std::string* out);
  // The `schema:` section (YAML) of these events.
  static std::string SchemaYaml(uint32_t features = 30);

 private:
  Rng rng_;
  uint32_t features_;
};

inline void SyntheticEvents::Next(std::string* out) {
  double x[4] = {0, 0, 0, 0};
  for (uint32_t i = 0; i < features_; ++i) {
    out->append(i == 0 ? "{\"f" : ",\"f");
    AppendInteger(i, out);
    out->append("\":");
    // The sum of 6 uniform numbers: close to normal, without a logarithm and a cosine per number.
    const uint64_t bits[2] = {rng_(), rng_()};
    double sum = -3;
    for (uint64_t word : bits) {
      for (int shift = 0; shift < 63; shift += 21)
        sum += static_cast<double>(word >> shift & 0x1fffff) * 0x1p-21;
    }
    sum *= 1.4142135623730951;
    if (i < 4) x[i] = sum;
    AppendFixed(sum, 4, out);
  }
  const double score = x[0] * x[1] + x[2] - 0.5 * (x[3] * x[3] - 1) + 0.3 * rng_.Normal();
  out->append(features_ == 0 ? "{\"y\":" : ",\"y\":");
  out->append(score > 0 ? "1}" : "0}");
}

inline std::string SyntheticEvents::SchemaYaml(uint32_t features) {
  std::string yaml = "format: json\nfields:\n";
  for (uint32_t i = 0; i < features; ++i) yaml += "  f" + std::to_string(i) + ": {type: number}\n";
  return yaml + "  y: {type: number, role: label, classes: 2}\n";
}

// The smallest event, {"v":1}, and its schema, for jobs that count events.
inline constexpr const char* kCounterEvent = R"({"v":1})";
inline constexpr const char* kCounterSchemaYaml = "format: json\nfields:\n  v: {type: number}\n";

// The `schema:` section (YAML) of the bots' payments, as in the demo job.
inline std::string BotsSchemaYaml() {
  return R"(format: json
fields:
  amount: {type: number, log: true, mean: 3.5, std: 1}
  times_usual: {type: number, log: true, mean: 0.8, std: 0.43}
  hour: {type: number, period: 24}
  hours_off: {type: number, mean: 2.7, std: 2.6}
  since_last: {type: number, log: true, mean: 5.6, std: 1.9}
  distance_km: {type: number, log: true, mean: 2.5, std: 2}
  new_device: {type: number, mean: 0.2, std: 0.4}
  kind:
    type: category
    values: [grocery, restaurant, fuel, fashion, electronics, travel, games, pharmacy, jewellery, transfer]
  country: {type: category, values: [ES, MX, US, FR, BR, DE, IN, JP]}
  channel: {type: category, values: [contactless, online, chip, phone]}
  fraud: {type: number, role: label, classes: 2}
  p_fraud: {type: number, role: truth}
)";
}

}  // namespace leat::stream

// Events for benchmarks and tests: numbers with a learnable label, and a minimal event for counting.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/rng.h"

namespace leat::stream {

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

// The smallest event, {"v":1}, and its schema, for jobs that count events.
inline constexpr const char* kCounterEvent = R"({"v":1})";
inline constexpr const char* kCounterSchemaYaml = "format: json\nfields:\n  v: {type: number}\n";

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

}  // namespace leat::stream

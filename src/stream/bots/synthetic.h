// Events for benchmarks and tests: numbers with a learnable label, and a minimal event for counting.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace leat::stream

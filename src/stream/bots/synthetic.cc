#include "stream/bots/synthetic.h"

namespace leat::stream {

void SyntheticEvents::Next(std::string* out) {
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

std::string SyntheticEvents::SchemaYaml(uint32_t features) {
  std::string yaml = "format: json\nfields:\n";
  for (uint32_t i = 0; i < features; ++i) yaml += "  f" + std::to_string(i) + ": {type: number}\n";
  return yaml + "  y: {type: number, role: label, classes: 2}\n";
}

}  // namespace leat::stream

#include "lab/sim/events/distribution.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <stdexcept>
#include <utility>

namespace leat::sim {

namespace {

[[noreturn]] void Refuse(std::string_view text, std::string_view wanted) {
  throw std::invalid_argument("'" + std::string(text) + "' is not " + std::string(wanted));
}

// Parses the number at the beginning of the text; `unit` becomes the rest.
double Number(std::string_view text, std::string_view wanted, std::string_view* unit) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) Refuse(text, wanted);
  *unit = text.substr(static_cast<size_t>(end - text.data()));
  return number;
}

// A number with one of the units, from `least` to less than `limit`.
double WithUnit(std::string_view text, std::string_view wanted, double least, double limit,
                std::initializer_list<std::pair<std::string_view, double>> units) {
  std::string_view unit;
  const double number = Number(text, wanted, &unit);
  for (const auto& [name, factor] : units) {
    if (unit == name && number * factor >= least && number * factor < limit) return number * factor;
  }
  Refuse(text, wanted);
}

}  // namespace

Duration Distribution::Draw(Rng& rng) const {
  switch (kind) {
    case Kind::kConstant:
      return FromSeconds(mean);
    case Kind::kNormal:
      return FromSeconds(std::max(0.0, mean + spread * rng.Normal()));
    case Kind::kLognormal:
      return FromSeconds(mean * std::exp(spread * rng.Normal()));
    case Kind::kExponential:
      return FromSeconds(rng.Exponential(mean));
    case Kind::kMeasured: {
      const double at = rng.Uniform() * static_cast<double>(quantiles.size() - 1);
      const auto below = std::min(static_cast<size_t>(at), quantiles.size() - 2);
      const double part = at - static_cast<double>(below);
      return FromSeconds(quantiles[below] + part * (quantiles[below + 1] - quantiles[below]));
    }
  }
  return {};
}

Distribution Measured(std::vector<double> seconds, size_t parts) {
  std::ranges::sort(seconds);
  Distribution measured{.kind = Distribution::Kind::kMeasured};
  const size_t last = seconds.size() - 1;
  for (size_t i = 0; i <= parts; ++i) {
    const double at = static_cast<double>(last) * static_cast<double>(i) / static_cast<double>(parts);
    const auto below = static_cast<size_t>(at);
    const double above = seconds[std::min(below + 1, last)];
    measured.quantiles.push_back(seconds[below] +
                                 (at - static_cast<double>(below)) * (above - seconds[below]));
  }
  for (const double value : seconds) measured.mean += value / static_cast<double>(seconds.size());
  return measured;
}

Duration ParseDuration(std::string_view text) {
  // A limit of one year.
  return FromSeconds(WithUnit(text, "a time like 100us, 5ms, 1.5s or 10m", 0, 3.2e7,
                              {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}}));
}

double ParseBandwidth(std::string_view text) {
  if (text == "unlimited") return 0;
  return WithUnit(text, "a bandwidth like 1gbit, 100mbit or unlimited", 1, HUGE_VAL,
                  {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}}) /
         8;
}

uint64_t ParseBytes(std::string_view text) {
  return static_cast<uint64_t>(
      WithUnit(text, "a size like 1500b, 512kb or 2mb", 0, 1e15,
               {{"b", 1}, {"kb", 1024}, {"mb", 1024.0 * 1024}, {"gb", 1024.0 * 1024 * 1024}}));
}

Distribution ParseDistribution(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return {Distribution::Kind::kConstant, Seconds(ParseDuration(text)), 0};
  }
  const std::string_view name = text.substr(0, colon);
  const std::string_view rest = text.substr(colon + 1);
  const size_t comma = rest.find(',');
  const std::string_view first = rest.substr(0, comma);
  const std::string_view second = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  const double mean = Seconds(ParseDuration(first));
  if (name == "exponential" && second.empty()) return {Distribution::Kind::kExponential, mean, 0};
  if (name == "normal" && !second.empty()) {
    return {Distribution::Kind::kNormal, mean, Seconds(ParseDuration(second))};
  }
  if (name == "lognormal" && !second.empty()) {
    std::string_view unit;
    const double spread = Number(second, "the spread of a logarithm, like 0.3", &unit);
    if (unit.empty() && spread <= 10) return {Distribution::Kind::kLognormal, mean, spread};
  }
  Refuse(text, "a time, normal:TIME,TIME, lognormal:TIME,SPREAD or exponential:TIME");
}

}  // namespace leat::sim

// Compares the alarms of both drift detectors with River's, on the same series.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/metrics/drift.h"
#include "golden.h"

namespace leat::goldens {
namespace {

double Uniform(uint32_t salt, uint32_t i) {
  return (double{Fill(salt, i)} + 1) / 2;
}

// The series of drift.py.
std::vector<double> Series(const nlohmann::json& goldens, const std::string& name) {
  const std::map<std::string, std::function<double(uint32_t)>> computed = {
      {"none", [](uint32_t i) { return Uniform(1, i); }},
      {"abrupt",
       [](uint32_t i) {
         constexpr double kShare[] = {0.2, 0.5, 0.1};
         return Uniform(2, i) < kShare[i / 2000] ? 1.0 : 0.0;
       }},
      {"gradual",
       [](uint32_t i) {
         const double share = 0.1 + 0.5 * (std::clamp(i, 2000u, 4000u) - 2000) / 2000;
         return Uniform(3, i) < share ? 1.0 : 0.0;
       }},
      {"steps", [](uint32_t i) { return 8.0 - 2.0 * (i / 1500) + 3.0 * Fill(4, i); }},
  };
  std::vector<double> values;
  if (name == "elec2") {
    const std::string packed = goldens["elec2"];
    for (uint32_t i = 0; i < goldens["elec2_events"]; ++i) {
      const int digit = std::stoi(packed.substr(i / 4, 1), nullptr, 16);
      values.push_back(digit >> (3 - i % 4) & 1);
    }
  } else {
    for (uint32_t i = 0; i < goldens["length"]; ++i) values.push_back(computed.at(name)(i));
  }
  return values;
}

TEST(DriftGolden, EveryAlarmIsThatOfRiver) {
  const auto goldens = Read("drift.json");
  ASSERT_EQ(goldens["cases"].size(), 45u);
  for (const auto& golden : goldens["cases"]) {
    auto section = golden;
    section.erase("series");
    section.erase("alarms");
    const auto config = metrics::DriftConfig::FromConfig(Config::Parse(section.dump(), "drift.json"));
    metrics::DriftDetector detector(config);
    std::vector<std::pair<size_t, uint64_t>> alarms;
    const auto values = Series(goldens, golden["series"]);
    for (size_t i = 0; i < values.size(); ++i) {
      if (detector.Update(values[i])) alarms.emplace_back(i, detector.width());
    }
    EXPECT_EQ(alarms, (golden["alarms"].get<std::vector<std::pair<size_t, uint64_t>>>()))
        << section << " " << golden["series"];
  }
}

}  // namespace
}  // namespace leat::goldens

// Alarms are compared with River's in tests/goldens/drift_test.cc.
#include "base/metrics/drift.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "base/rng.h"

namespace leat::metrics {
namespace {

DriftConfig Parse(const std::string& yaml) {
  return DriftConfig::FromConfig(Config::Parse(yaml, "job.yaml"));
}

TEST(Drift, ANameMeansItsDefaults) {
  EXPECT_EQ(Parse("adwin"), (DriftConfig{.detector = AdwinOptions()}));
  EXPECT_EQ(Parse("page_hinkley"), (DriftConfig{.detector = PageHinkleyOptions()}));
  EXPECT_EQ(Parse("{detector: adwin}").detector_name(), "adwin");
  EXPECT_EQ(Parse("page_hinkley").detector_name(), "page_hinkley");
}

TEST(Drift, EverySettingIsRead) {
  EXPECT_EQ(
      Parse("{detector: adwin, on: error, alarm: checkpoint, delta: 0.1, clock: 2, max_buckets: 3, "
            "min_window_length: 4, grace_period: 6}"),
      (DriftConfig{
          .detector =
              AdwinOptions{
                  .delta = 0.1, .clock = 2, .max_buckets = 3, .min_window_length = 4, .grace_period = 6},
          .on = DriftConfig::On::kError,
          .alarm = DriftConfig::Alarm::kCheckpoint}));
  EXPECT_EQ(Parse("{detector: page_hinkley, on: absolute_error, alarm: report, min_instances: 7, delta: 0.2, "
                  "threshold: 9, alpha: 0.5, mode: down}"),
            (DriftConfig{.detector = PageHinkleyOptions{.min_instances = 7,
                                                        .delta = 0.2,
                                                        .threshold = 9,
                                                        .alpha = 0.5,
                                                        .mode = PageHinkleyOptions::Mode::kDown},
                         .on = DriftConfig::On::kAbsoluteError}));
  EXPECT_EQ(Parse("{detector: adwin, alarm: raise_rate, factor: 2.5, events: 700}"),
            (DriftConfig{.detector = AdwinOptions(),
                         .alarm = DriftConfig::Alarm::kRaiseRate,
                         .factor = 2.5f,
                         .events = 700}));
}

TEST(Drift, MistakesAreSaidWithTheirLine) {
  for (const auto& [yaml, said] :
       {std::pair{"adwim", "unknown detector 'adwim'; did you mean 'adwin'?"},
        {"{on: loss}", "detector"},
        {"{detector: adwin, threshold: 5}", "threshold"},
        {"{detector: page_hinkley, clock: 5}", "clock"},
        {"{detector: adwin, on: accuracy}", "unknown on 'accuracy'"},
        {"{detector: adwin, alarm: stop}", "unknown alarm 'stop'"},
        {"{detector: adwin, max_buckets: 1}", "max_buckets is 1"},
        {"{detector: adwin, delta: 0}", "delta is 0"},
        {"{detector: adwin, clock: 0}", "clock is 0"},
        {"{detector: adwin, factor: 2}", "factor is a setting of alarm: raise_rate"},
        {"{detector: adwin, alarm: checkpoint, events: 9}", "events is a setting"},
        {"{detector: adwin, alarm: raise_rate, factor: 0.5}", "factor is 0.5"},
        {"{detector: adwin, alarm: raise_rate, events: 0}", "events is 0"},
        {"{detector: page_hinkley, mode: sideways}", "unknown mode 'sideways'"}}) {
    try {
      (void)Parse(yaml);
      ADD_FAILURE() << yaml;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
      EXPECT_TRUE(std::string(error.what()).starts_with("job.yaml:1: ")) << error.what();
    }
  }
}

TEST(Drift, ValuesThatAreNotFiniteAreIgnored) {
  for (const char* name : {"adwin", "page_hinkley"}) {
    DriftDetector with(Parse(name)), without(Parse(name));
    Rng rng(3);
    size_t alarms = 0;
    for (int i = 0; i < 4000; ++i) {
      const double value = rng.Chance(i < 2000 ? 0.1 : 0.7) ? 1 : 0;
      EXPECT_FALSE(with.Update(std::numeric_limits<double>::quiet_NaN()));
      EXPECT_FALSE(with.Update(std::numeric_limits<double>::infinity()));
      const bool alarm = with.Update(value);
      ASSERT_EQ(alarm, without.Update(value)) << i;
      alarms += alarm ? 1 : 0;
    }
    EXPECT_GT(alarms, 0u) << name;
  }
}

// After an alarm the window holds only events of the new concept.
TEST(Adwin, TheWindowIsThatOfTheNewMean) {
  Adwin adwin({.clock = 1});
  Rng rng(5);
  for (int i = 0; i < 3000; ++i) EXPECT_FALSE(adwin.Update(rng.Uniform()));
  EXPECT_EQ(adwin.width(), 3000u);
  EXPECT_NEAR(adwin.mean(), 0.5, 0.03);
  int late = 0;
  while (!adwin.Update(5 + rng.Uniform())) ASSERT_LT(++late, 50);
  EXPECT_LT(adwin.width(), 2000u);
  EXPECT_FALSE(adwin.Update(5.5));
  EXPECT_EQ(adwin.width(), 1u) << "as in River";
}

}  // namespace
}  // namespace leat::metrics

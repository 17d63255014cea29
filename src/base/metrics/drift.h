// Detection of concept drift, as configured by `metrics: drift:` of a job.
//
//   drift: adwin
//   drift: {detector: page_hinkley, on: error, alarm: checkpoint, threshold: 20}
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "base/config/config.h"
#include "base/metrics/detectors.h"

namespace leat::metrics {

struct DriftConfig {
  enum class On : uint8_t {
    kLoss,
    kError,          // share of labels predicted wrong
    kAbsoluteError,  // regression
  };
  enum class Alarm : uint8_t {
    kReport,      // in log, status and summary
    kCheckpoint,  // and a checkpoint is started
    kRaiseRate,   // and the learning rate is raised for a while
  };
  std::variant<AdwinOptions, PageHinkleyOptions> detector;
  On on = On::kLoss;
  Alarm alarm = Alarm::kReport;
  float factor = 3;          // kRaiseRate: on the learning rate
  uint64_t events = 50'000;  // kRaiseRate: for so many events
  friend bool operator==(const DriftConfig&, const DriftConfig&) = default;

  // A detector's name or a map. Throws std::invalid_argument with the line.
  static DriftConfig FromConfig(const Config& config);
  std::string_view detector_name() const;
};
LEAT_ENUM(DriftConfig::On, (kLoss, "loss"), (kError, "error"), (kAbsoluteError, "absolute_error"));
LEAT_ENUM(DriftConfig::Alarm, (kReport, "report"), (kCheckpoint, "checkpoint"), (kRaiseRate, "raise_rate"));

class DriftDetector {
 public:
  explicit DriftDetector(const DriftConfig& config);

  // True: an alarm. Values that are not finite are ignored.
  bool Update(double value);
  // The number and the mean of the values that the next one is compared with. After an alarm: those kept.
  uint64_t width() const;
  double mean() const;

 private:
  std::variant<Adwin, PageHinkley> detector_;
};

}  // namespace leat::metrics

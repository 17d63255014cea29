// Detection of concept drift, as configured by `metrics: drift:` of a job.
//
//   drift: adwin
//   drift: {detector: page_hinkley, on: error, alarm: checkpoint, threshold: 20}
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <variant>
#include <vector>

#include "base/config/config.h"
#include "base/fields/fields.h"

namespace leat::metrics {

// ADWIN: a window over a stream of values that shrinks when their mean changes (Bifet and Gavaldà 2007,
// ADWIN2).
//
// The window is kept as an exponential histogram: row i holds buckets of 2^i values each, at most
// `max_buckets` of them, so that memory and the time of a check grow with the logarithm of the window. Every
// `clock` values all cuts between two buckets are tested. If the means on both sides differ by more than
// chance explains, at significance `delta`, the oldest bucket is dropped and an alarm is raised.
//
// Parameters, their defaults and every alarm are those of River's drift.ADWIN: after an alarm, the next value
// starts an empty window. Sums are therefore computed in River's order. The test assumes values in [0, 1], as
// River's does. Not thread-safe.

struct AdwinOptions {
  double delta = 0.002;            // in (0, 1)
  uint32_t clock = 32;             // values between two checks, at least 1
  uint32_t max_buckets = 5;        // buckets of one size, at least 2
  uint32_t min_window_length = 5;  // values on each side of a cut, at least 1
  uint32_t grace_period = 10;      // a window of at most so many values is not checked
  friend bool operator==(const AdwinOptions&, const AdwinOptions&) = default;
};

class Adwin {
 public:
  explicit Adwin(const AdwinOptions& options);

  // Adds a finite value. True: an alarm.
  bool Update(double value);

  uint64_t width() const { return static_cast<uint64_t>(width_); }  // values in the window
  double mean() const { return width_ > 0 ? total_ / width_ : 0; }  // mean of the window

 private:
  struct Bucket {
    double total = 0;
    double variance = 0;  // sum of squared distances to the bucket's mean
  };
  using Row = std::vector<Bucket>;  // oldest first

  void Reset();
  void Insert(double value);
  void Compress();
  void DropOldest();
  bool Check();
  bool FindsCut() const;
  bool Differs(double old_count, double new_count, double mean_difference) const;

  AdwinOptions options_;
  bool alarm_ = false;  // raised by the last value
  uint64_t values_ = 0;
  double width_ = 0, total_ = 0, variance_ = 0;
  std::vector<Row> rows_;
};

// The Page-Hinkley test: an alarm when values drift away from their mean (Page 1954; Mouss et al. 2004).
//
// Two sums of the deviations from the mean so far, less (more) a tolerance of `delta` each, forget by the
// factor `alpha` per value. An increase of the mean raises the first sum above its minimum, a decrease lowers
// the second below its maximum; more than `threshold` is an alarm. Parameters, their defaults and every alarm
// are those of River's drift.PageHinkley: after an alarm, the next value starts anew. Not thread-safe.

struct PageHinkleyOptions {
  enum class Mode : uint8_t { kUp, kDown, kBoth };
  uint32_t min_instances = 30;  // no alarm before so many values
  double delta = 0.005;         // tolerated deviation
  double threshold = 50;
  double alpha = 0.9999;  // forgetting factor
  Mode mode = Mode::kBoth;
  friend bool operator==(const PageHinkleyOptions&, const PageHinkleyOptions&) = default;
};
LEAT_ENUM(PageHinkleyOptions::Mode, (kUp, "up"), (kDown, "down"), (kBoth, "both"));

class PageHinkley {
 public:
  explicit PageHinkley(const PageHinkleyOptions& options) : options_(options) {}

  // Adds a finite value. True: an alarm.
  bool Update(double value);

  uint64_t width() const { return static_cast<uint64_t>(state_.count); }  // values since the last alarm
  double mean() const { return state_.mean; }                             // mean of these values

 private:
  struct State {
    bool alarm = false;  // raised by the last value
    double count = 0;
    double mean = 0;
    double increase = 0, decrease = 0;
    double least_increase = std::numeric_limits<double>::infinity();
    double most_decrease = -1;  // as in River
  };

  PageHinkleyOptions options_;
  State state_;
};

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

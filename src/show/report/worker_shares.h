// Compares the share of the stream that each worker trains with that of all workers, and warns of a worker
// whose labels or features are distributed otherwise (base/metrics/share.h).
//
// Shares forget: an event's weight is e^-t, where t is the length of the stream since then, in windows. A
// window is `window` events, or kWindowSplits splits for each worker, whichever is longer. The weights of the
// workers are in proportion to the events that they train. Workers that have left count in the whole until
// they are forgotten. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/metrics/share.h"
#include "protocol/messages_control.h"
#include "protocol/strategy.h"

namespace leat::report {

class WorkerShares {
 public:
  static constexpr double kWindowSplits = 64;
  // A skew below this is no problem, even if it is no coincidence. 0.2 standard deviations are a small effect
  // (Cohen 1988).
  static constexpr double kSmallDistance = 0.1, kSmallDifference = 0.2;
  // The probability that one comparison of a worker whose splits are chosen at random gives a warning.
  static constexpr double kAlpha = 0.001;
  // There is no warning before so many effective splits.
  static constexpr double kMinSplits = 16;
  // A skew is over when it is below this part of its limit.
  static constexpr double kOver = 0.75;
  static constexpr Duration kInterval = std::chrono::seconds(1);

  struct Options {
    metrics::ShareLayout layout;
    uint64_t window = 200'000;
    protocol::StrategyConfig strategy;
  };
  struct Skew {
    // NaN: not known, as that of a single worker, or of one that has trained nothing for a window.
    double label = std::numeric_limits<double>::quiet_NaN();
    double feature = std::numeric_limits<double>::quiet_NaN();
    std::string feature_name;  // the feature with the largest skew in relation to its limit
    bool label_skewed = false, feature_skewed = false;  // since a warning
  };
  struct Notice {
    bool over = false;
    std::string text;  // a line of text
  };

  explicit WorkerShares(Options options) : options_(std::move(options)) {}

  // A worker's share since it joined. Bytes that are none, or of an earlier state, are ignored.
  void OnReport(NodeId worker, ByteView share);
  // Compares the workers of the view, at most once in kInterval.
  void Compare(Time now, const protocol::View& view);
  void Forget(NodeId worker) { workers_.erase(worker); }

  // As of the last comparison. Null: the worker has not reported a share.
  const Skew* Find(NodeId worker) const;
  uint64_t warnings() const { return warnings_; }
  // Warnings, and skews that are over, since the last call.
  std::vector<Notice> TakeNotices() { return std::exchange(notices_, {}); }

 private:
  struct Worker {
    metrics::Share last;    // its last report
    metrics::Share recent;  // weights as of `at`
    double squares = 0;     // sum of the squared weights of the splits in `recent`
    double at = 0;          // clock_
    double trained = 0;     // clock_ at its last report of more events
    Skew skew;
  };
  struct Comparison;

  void FadeToNow(Worker* worker) const;
  void Judge(const protocol::Member& member, const metrics::Share& whole, const metrics::SplitSums& sums,
             Worker* worker);
  void Note(const Comparison& comparison, const std::string& subject, const std::string& detail,
            bool* skewed);

  Options options_;
  std::map<NodeId, Worker> workers_;
  size_t in_view_ = 0;  // workers
  double clock_ = 0;    // windows since the start
  bool changed_ = false;
  std::optional<Time> compared_;
  uint64_t warnings_ = 0;
  std::vector<Notice> notices_;
};

}  // namespace leat::report

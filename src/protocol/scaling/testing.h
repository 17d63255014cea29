// For tests: a job in virtual time, whose throughput is a function of its number of workers, under the
// autoscaler.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "protocol/scaling/autoscaler.h"

namespace leat::protocol {

struct ModelOptions {
  std::function<double(uint32_t)> throughput;  // events/s of so many workers that all have work
  AutoscalerConfig autoscaler;
  uint32_t workers = 1;  // at the start
  bool fixed = false;    // the number of workers stays
  double noise = 0.04;   // relative deviation of the throughput of a step
  uint64_t seed = 1;
  Duration step = std::chrono::milliseconds(250);
  Duration start = std::chrono::milliseconds(1500);  // until a new worker trains
  Duration drain = std::chrono::milliseconds(500);   // until a worker has left
};

class JobModel {
 public:
  struct Change {
    Time at{0};
    uint32_t from = 0, to = 0;
    std::string reason;
  };

  explicit JobModel(ModelOptions options)
      : options_(std::move(options)),
        autoscaler_(options_.autoscaler),
        rng_(options_.seed),
        workers_(options_.workers) {}

  // Lets time pass, with so many events coming per second at each moment.
  void Run(Duration time, const std::function<double(Time)>& rate) {
    for (const Time until = now_ + time; now_ < until;) Step(rate(now_));
  }
  void Run(Duration time, double rate) {
    Run(time, [rate](Time) { return rate; });
  }

  Time now() const { return now_; }
  uint32_t workers() const { return workers_; }
  uint32_t wanted() const { return autoscaler_.decision().workers; }
  const std::string& reason() const { return autoscaler_.decision().reason; }
  const std::vector<Change>& changes() const { return changes_; }
  Duration oldest() const { return oldest_; }
  double worker_seconds() const { return worker_seconds_; }
  // How long the oldest event had waited, at each step.
  const std::vector<Duration>& lags() const { return lags_; }
  Autoscaler& autoscaler() { return autoscaler_; }

  std::function<double(uint32_t)>& throughput() { return options_.throughput; }
  uint32_t servers = 2;
  bool training = true;
  bool obeyed = true;  // the wanted workers come

 private:
  // An event is trained half a second after it came, at the earliest.
  static constexpr Duration kPipeline = std::chrono::milliseconds(500);

  void Step(double rate) {
    now_ += options_.step;
    const double dt = Seconds(options_.step);
    Obey();
    arrived_ += rate * dt;
    came_.emplace_back(now_, arrived_);
    double ready = trained_;
    for (const auto& [at, count] : came_) {
      if (now_ - at < kPipeline) break;
      ready = std::max(ready, count);
      if (ready > trained_ + 1e5) break;
    }
    if (training) {
      const double capacity = options_.throughput(workers_) * (1 + options_.noise * rng_.Normal());
      trained_ = std::min(trained_ + std::max(capacity, 0.0) * dt, ready);
    }
    worker_seconds_ += workers_ * dt;
    while (came_.size() > 1 && came_.front().second <= trained_) came_.pop_front();
    // Progress is known a little late.
    oldest_ = now_ - came_.front().first + FromSeconds(0.5 * rng_.Uniform());
    lags_.push_back(oldest_);
    if (!options_.fixed) Decide();
  }

  void Decide() {
    const uint32_t before = wanted();
    autoscaler_.OnLoad(now_, {.training = training,
                              .arrived = static_cast<uint64_t>(arrived_),
                              .trained = static_cast<uint64_t>(trained_),
                              .lag = static_cast<uint64_t>(arrived_ - trained_),
                              .oldest = oldest_,
                              .workers = workers_,
                              .servers = servers});
    if (wanted() == before) return;
    if (before != 0) changes_.push_back({now_, before, wanted(), reason()});
    if (wanted() != workers_) moved_at_ = now_;
  }

  void Obey() {
    const uint32_t wanted_now = wanted();
    if (!obeyed || wanted_now == 0 || wanted_now == workers_) return;
    if (now_ - moved_at_ >= (wanted_now > workers_ ? options_.start : options_.drain)) workers_ = wanted_now;
  }

  ModelOptions options_;
  Autoscaler autoscaler_;
  Rng rng_;
  Time now_{0};
  uint32_t workers_;
  Time moved_at_{0};
  double arrived_ = 0, trained_ = 0, worker_seconds_ = 0;
  std::deque<std::pair<Time, double>> came_;
  Duration oldest_{0};
  std::vector<Duration> lags_;
  std::vector<Change> changes_;
};

// Each worker trains as much as the first.
inline std::function<double(uint32_t)> Linear(double each) {
  return [each](uint32_t workers) { return each * workers; };
}
// The servers let no more through.
inline std::function<double(uint32_t)> Saturating(double each, double most) {
  return [each, most](uint32_t workers) { return std::min(each * workers, most); };
}
// More workers than cores take time from each other.
inline std::function<double(uint32_t)> OnCores(double each, uint32_t cores) {
  return [each, cores](uint32_t workers) {
    const double more = workers > cores ? 0.02 * (workers - cores) : 0;
    return each * std::min(workers, cores) * (1 - more);
  };
}

}  // namespace leat::protocol

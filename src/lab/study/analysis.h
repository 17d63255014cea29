// Measurements of a running job: its speed, and when its learning reaches a target. And conclusions: where
// more workers stop helping, and why; and from predictions, which machines and which strategy a job should
// have. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fields/fields.h"
#include "base/status.h"
#include "base/text.h"
#include "show/report/job_status.h"

namespace leat::study {

// How much of each resource a run has used, and what else slows it down. Shares are from 0 to 1.
struct Usage {
  double server_link = 0;  // the busiest server's link, in its busier direction
  double server_cpu = 0;   // the busiest server's thread
  double source_link = 0;  // the input's link
  double member_link = 0;  // the busiest worker's link, in all-reduce
  double compute = 0;      // share of the workers' time
  double wait = 0;         // share of the workers' time, for servers or other workers
  double input_wait = 0;   // share of the workers' time, with nothing to train
  double slowest = 1;      // time of a batch on the slowest worker, relative to the median of all
  double staleness = 0;    // mean
  bool stepped = false;    // all workers wait for the slowest one
};
LEAT_FIELDS(Usage, (server_link), (server_cpu), (source_link), (member_link, As("worker_link")), (compute),
            (wait), (input_wait), (slowest), (staleness), (stepped));

// A point of a series that differs in the number of workers only.
struct SeriesPoint {
  uint32_t workers = 0;
  double events_per_s = 0;
  std::optional<double> target_s;  // time until the target was reached; none: it was not, or there is none
  std::optional<double> target_events;  // events until then
  Usage usage;
};

enum class Factor : uint8_t {
  kInput = 0,  // the input's bandwidth, or decoding
  kServerLink = 1,
  kServerCpu = 2,
  kWorkerLink = 3,  // all-reduce
  kSlowestWorker = 4,
  kStaleness = 5,  // more events are needed, since gradients are stale
  kBatch =
      6,  // more events are needed, since the joint batch grows; or batches are too short for their messages
  kModel = 7,  // workers compute nearly all of the time
};
LEAT_ENUM(Factor, (kInput, "input"), (kServerLink, "server link"), (kServerCpu, "server cpu"),
          (kWorkerLink, "worker link"), (kSlowestWorker, "slowest worker"), (kStaleness, "staleness"),
          (kBatch, "batch"), (kModel, "model"));
// In a sentence: "the servers' links are full: …".
std::string Explain(Factor factor, const SeriesPoint& point);

// Worth of the last workers of the series. A point is worth 1 / time to the target if there is a target, else
// its events per second.
struct SweetSpot {
  // Last point to which workers add at least the wanted share, averaged since the last such point: a dip, as
  // where all-reduce begins to need the network, does not hide that more workers help.
  size_t index = 0;
  bool at_end = false;  // every worker of the series was worth it
  double marginal =
      0;  // worth of a worker of the next point, relative to one of the first; 0 if there is none
  Factor factor = Factor::kModel;  // limit of the next point, or of the last one
};
// `series` in the order of growing workers, at least one point; `gain`: the least that a further worker must
// add, in shares of what one of the first point's workers does. None if no point is worth anything: the
// target was never reached.
std::optional<SweetSpot> FindSweetSpot(const std::vector<SeriesPoint>& series, double gain, bool target);

// The factor that limits a point. `before`: the point with fewer workers to compare with; may be null.
Factor LimitingFactor(const SeriesPoint& point, const SeriesPoint* before);

// ---- predictions: a search for the best choice

struct Choice {
  std::string strategy;
  uint32_t workers = 1;
  uint32_t servers = 0;  // 0: the strategy has none
  friend auto operator<=>(const Choice&, const Choice&) = default;
};

struct Prediction {
  double seconds = 0;  // for all events
  double cost = 0;     // price of the hosts for this time
};

enum class Goal : uint8_t { kTime = 0, kCost = 1 };

struct SearchSpace {
  std::vector<std::string> on_servers;  // strategies
  bool allreduce = true;
  uint32_t most_workers = 32, most_servers = 8;
};

struct Advice {
  struct Tried {
    Choice choice;
    Prediction prediction;
  };
  std::optional<Tried> best;      // none: nothing meets the deadline, or nothing could be predicted
  std::optional<Tried> fastest;   // shortest time of all, even beyond the deadline
  std::vector<Tried> neighbours;  // variations of the best: fewer, more workers and servers, another strategy
  std::vector<Tried> tried;       // all, in this order
};

// Predicts choices and searches for the one with the lowest cost or time. A deadline of 0 is none. Among
// choices whose goal differs by less than a hundredth, the one with fewer processes is better. `predict` is
// called at most once for a choice; a choice that it cannot predict is left out. Stops when `enough` returns
// true.
Advice Search(const SearchSpace& space, Goal goal, double deadline_s,
              const std::function<Result<Prediction>(const Choice&)>& predict,
              const std::function<bool()>& enough);

// The advice in five lines; `reason`: what limits a larger choice.
std::string Render(const Advice& advice, Goal goal, double deadline_s, const std::string& reason);

// ---- measurements of a running job

// The speed of a job in its middle, from how many events have counted at which time: without its start, and
// without its end. Steps count many events at once, so the speed is taken between two moments at which
// events have counted.
class ThroughputMeter {
 public:
  // Ignores the time before `warm_up` after the first event.
  explicit ThroughputMeter(Duration warm_up) : warm_up_(warm_up) {}

  // `events` since the beginning; times do not decrease.
  void Add(Time now, uint64_t events);
  // How long events have been measured; 0: not yet.
  Duration measured() const { return first_ ? last_.at - first_->at : Duration(0); }
  // Events per second; none if there were fewer than two moments.
  std::optional<double> rate() const;

 private:
  struct Moment {
    Time at{0};
    uint64_t events = 0;
  };
  Duration warm_up_;
  uint64_t seen_ = 0;
  std::optional<Time> begun_;
  std::optional<Moment> first_;
  Moment last_;
};

// The target of a job's learning: a figure over the last events that has to be reached. The figure is an
// entry of the job's status: `accuracy` and `auc` have to rise to the value, `loss` has to
// fall to it.
struct Target {
  std::string figure = "accuracy";
  double value = 0;
  uint64_t window = 5000;  // events that the figure has to cover at least: `metrics: window` of the job

  // "accuracy 0.95"
  std::string Text() const { return Formatted("%s %.4g", figure.c_str(), value); }
};

// Parses "accuracy=0.95", "loss=0.3". Throws std::invalid_argument with the text.
Target ParseTarget(const std::string& text);

struct Reached {
  double seconds = 0;  // training time
  double events = 0;   // events that every slice has
};

// Finds out from a job's status when the target was reached.
class TargetWatch {
 public:
  explicit TargetWatch(std::optional<Target> target) : target_(std::move(target)) {}
  void OnStatus(const report::JobStatus& status);
  const std::optional<Reached>& reached() const { return reached_; }

 private:
  struct Moment {
    double seconds = 0, events = 0, value = 0;
  };

  std::optional<Target> target_;
  std::optional<Moment> last_;  // before it was reached
  std::optional<Reached> reached_;
};

}  // namespace leat::study

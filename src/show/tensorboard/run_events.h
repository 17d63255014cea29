// Decides which events a run has: a pure function of the statuses that it is shown, in their order.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "show/tensorboard/events.h"
#include "show/tensorboard/job_graph.h"
#include "show/tensorboard/status_summary.h"

namespace leat::tensorboard {

// The time from one point to the next: a thousandth of the run so far, so that a long run has few thousand
// points, but at least kLeastPause and at most kMostPause.
inline constexpr Duration kLeastPause = std::chrono::seconds(1);
inline constexpr Duration kMostPause = std::chrono::seconds(30);
Duration PauseAfter(Duration run);

// Not thread-safe.
class RunEvents {
 public:
  // A graph is written when the placement has not changed between two statuses, or after this time.
  static constexpr Duration kGraphPause = std::chrono::seconds(10);

  using MakeGraph = std::function<Graph(const Placement&)>;
  explicit RunEvents(MakeGraph make_graph) : make_graph_(std::move(make_graph)) {}

  // The events of a status. `now`: any clock that does not go back. `last`: no other status follows. A job
  // that waits for its servers has none: it does not know how far it is. When a job falls back, because a
  // server's slices return from a checkpoint, what was written from there on is declared obsolete.
  std::vector<Event> OnStatus(Time now, double wall_time, const report::JobStatus& status, bool last = false);
  // The events of the last status could not be written: the next ones have what must not be missing.
  void OnLost();
  // Histograms of the variables in a checkpoint, as events at step `events`.
  // None before the first point: the run has not started.
  std::vector<Event> OnWeights(double wall_time, uint64_t events,
                               std::vector<std::pair<std::string, Histogram>> weights) const;
  // Histograms of gradients, as events at the step of the last point.
  std::vector<Event> OnGradients(double wall_time,
                                 std::vector<std::pair<std::string, Histogram>> gradients) const;
  // Whether there was a point. Events before the first point are left out.
  bool started() const { return events_.has_value(); }

 private:
  bool WantsGraph(Time now, const Placement& placement, bool last);

  const MakeGraph make_graph_;
  StatusSummary summary_;
  std::optional<uint64_t> events_;    // progress at the last point; none: there was none yet
  std::optional<Placement> written_;  // placement in the last graph
  std::optional<Placement> seen_;     // placement in the last status
  Time changed_{0};                   // when it first differed from the last graph
};

}  // namespace leat::tensorboard

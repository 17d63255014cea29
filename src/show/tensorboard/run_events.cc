#include "show/tensorboard/run_events.h"

#include <algorithm>

namespace leat::tensorboard {
namespace {

// Every variable is somewhere.
bool Complete(const Placement& placement) {
  return !placement || std::ranges::none_of(*placement, [](const auto& v) { return v.ps.empty(); });
}

Event Histograms(const std::string& scope, double wall_time, uint64_t events,
                 std::vector<std::pair<std::string, Histogram>> of) {
  Summary summary;
  for (auto& [variable, histogram] : of)
    summary.histograms.emplace_back(scope + variable, std::move(histogram));
  return {.wall_time = wall_time, .step = static_cast<int64_t>(events), .what = std::move(summary)};
}

}  // namespace

Duration PauseAfter(Duration run) {
  return std::clamp(run / 1000, kLeastPause, kMostPause);
}

bool RunEvents::WantsGraph(Time now, const Placement& placement, bool last) {
  const bool settled = seen_ && *seen_ == placement;
  seen_ = placement;
  if (written_ && *written_ == placement) {
    changed_ = Time{0};
    return false;
  }
  if (changed_ == Time{0}) changed_ = now;
  const bool first = !written_;
  return last || (Complete(placement) && (first || settled || now - changed_ >= kGraphPause));
}

std::vector<Event> RunEvents::OnStatus(Time now, double wall_time, const report::JobStatus& status,
                                       bool last) {
  if (status.phase.starts_with("waiting") && !last) return {};
  std::vector<Event> events;
  const auto add = [&](auto what) {
    events.push_back(
        {.wall_time = wall_time, .step = static_cast<int64_t>(status.events), .what = std::move(what)});
  };
  if (!events_ || status.events < *events_) add(RunStart{});
  events_ = status.events;
  if (WantsGraph(now, status.variables, last)) {
    add(make_graph_(status.variables));
    written_ = status.variables;
    changed_ = Time{0};
  }
  add(summary_.Take(status));
  return events;
}

void RunEvents::OnLost() {
  events_.reset();
  written_.reset();
}

std::vector<Event> RunEvents::OnWeights(double wall_time, uint64_t events,
                                        std::vector<std::pair<std::string, Histogram>> weights) const {
  if (!events_) return {};
  return {Histograms("weights/", wall_time, events, std::move(weights))};
}

std::vector<Event> RunEvents::OnGradients(double wall_time,
                                          std::vector<std::pair<std::string, Histogram>> gradients) const {
  if (!events_) return {};
  return {Histograms("gradients/", wall_time, *events_, std::move(gradients))};
}

}  // namespace leat::tensorboard

#include "observe/tensorboard/run_events.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json/text.h"

namespace leat::tensorboard {
namespace {

// Every variable is somewhere.
bool Complete(const std::optional<std::vector<VariablePlacement>>& placement) {
  return !placement || std::ranges::none_of(*placement, [](const auto& v) { return v.parts.empty(); });
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

Result<std::vector<Event>> RunEvents::OnStatus(Time now, double wall_time, std::string_view json,
                                               bool last) try {
  const auto status = ParsedJson(json);
  if (status.value("phase", std::string()).starts_with("waiting") && !last) return std::vector<Event>();
  const Placement placement = PlacementIn(status);
  StatusSummary::Step step = summary_.Take(status);
  std::vector<Event> events;
  const auto add = [&](auto what) {
    events.push_back(
        {.wall_time = wall_time, .step = static_cast<int64_t>(step.events), .what = std::move(what)});
  };
  if (!events_ || step.events < *events_) add(RunStart{});
  events_ = step.events;
  if (WantsGraph(now, placement, last)) {
    add(make_graph_(placement));
    written_ = placement;
    changed_ = Time{0};
  }
  add(std::move(step.summary));
  return events;
} catch (const nlohmann::json::exception& e) {
  return Status(Code::kDataLoss, std::string("this is not the status of a job: ") + e.what());
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

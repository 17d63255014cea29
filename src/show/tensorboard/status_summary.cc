#include "show/tensorboard/status_summary.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "show/report/figures.h"
#include "show/tensorboard/gradients.h"

namespace leat::tensorboard {

Summary StatusSummary::Take(const report::JobStatus& status) {
  Summary out;
  const auto describe = [&](const std::string& tag, std::string_view help) {
    if (described_.insert(tag).second) out.descriptions[tag] = help;
  };
  const auto add = [&](const std::string& scope, const auto& figures, const auto& from) {
    for (const auto& figure : figures) {
      if (figure.tag.empty()) continue;
      report::ForEachValue(figure, from, [&](const std::string& key, double value) {
        const std::string tag = scope + std::string(figure.tag) + (key.empty() ? "" : "/" + key);
        if (!std::isfinite(value)) return;
        out.scalars.emplace_back(tag, static_cast<float>(value));
        describe(tag, figure.help);
      });
    }
  };
  add("", report::kJobFigures, status);
  for (const report::MemberStatus& m : status.members) {
    const bool worker = m.name.Works("worker");
    if ((!worker && !m.name.Works("ps")) || m.name.index >= kMaxMembers) continue;
    const std::string scope = (worker ? "workers/" : "servers/") + std::to_string(m.name.index) + "/";
    add(scope, report::kMemberFigures, m);
    if (m.worker) add(scope, report::kWorkerFigures, m.worker->progress);
  }

  auto since = status.staleness;
  // Servers that come again begin with 0.
  for (size_t i = 0; i < std::min(since.size(), staleness_.size()); ++i)
    since[i] -= std::min(since[i], staleness_[i]);
  staleness_ = status.staleness;
  if (Histogram histogram = OfWholeNumbers(since); !histogram.counts.empty()) {
    out.histograms.emplace_back("updates/staleness", std::move(histogram));
    describe("updates/staleness", "Staleness of the updates since the last point.");
  }
  return out;
}

}  // namespace leat::tensorboard

#include "show/prometheus/status_families.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace leat::observe {
namespace {

constexpr Metric kInfo = {"leat_job_info", "Always 1."};
constexpr Metric kEvents = {"leat_job_events_total",
                            "Events that were trained, each counted once, since this process was first asked "
                            "for metrics of the job."};
constexpr Metric kPhase = {"leat_job_phase", "1 for the phase that the job is in, else 0."};
constexpr Metric kStaleness = {"leat_job_staleness",
                               "Updates of a slice between a worker's pull and its push."};
constexpr Metric kMembers = {"leat_job_members", "Members of the job."};
constexpr Metric kPartitionLag = {
    "leat_job_partition_lag_events",
    "The lag of those partitions, at most 16, whose events have waited longest."};
constexpr Metric kPartitionAge = {"leat_job_partition_lag_seconds",
                                  "How long the oldest event of such a partition has waited."};

void AddMembers(const report::JobStatus& status, Families* families) {
  std::map<std::pair<std::string, std::string>, double> numbers;
  for (const report::MemberStatus& m : status.members)
    ++numbers[{m.name.role, m.name.state.empty() ? "active" : m.name.state}];
  for (const auto& [group, number] : numbers)
    families->Add(kMembers, number, {{"role", group.first}, {"state", group.second}});
  for (size_t i = 0; i < std::min(status.members.size(), StatusFamilies::kMostMembers); ++i) {
    const report::MemberStatus& m = status.members[i];
    families->Add(
        report::kMemberFigures, m,
        {{"role", m.name.standby() ? m.name.state : m.name.role}, {"index", std::to_string(m.name.index)}});
  }
}

}  // namespace

void StatusFamilies::Add(const report::JobStatus& status, Families* families) {
  families->Add(kInfo, 1, {{"name", status.job}, {"strategy", status.strategy}});
  most_events_ = std::max(most_events_, status.events);
  if (!first_events_) first_events_ = most_events_;
  families->Add(kEvents, static_cast<double>(most_events_ - *first_events_));
  using Phase = protocol::CoordinatorStatus::Phase;
  for (const auto& phase : EnumeratorsOf(Phase()))
    families->Add(kPhase, status.phase == phase.name ? 1 : 0, {{"phase", std::string(phase.name)}});
  families->Add(report::kJobFigures, status);
  const auto updates = std::accumulate(status.staleness.begin(), status.staleness.end(), uint64_t{0});
  // Whole, so that it never falls.
  if (std::isfinite(status.staleness_mean))
    families->AddHistogram(kStaleness, status.staleness,
                           std::round(status.staleness_mean * static_cast<double>(updates)));
  for (const auto& partition : status.partitions) {
    const Labels labels = {{"partition", std::to_string(partition.partition)}};
    families->Add(kPartitionLag, static_cast<double>(partition.events), labels);
    families->Add(kPartitionAge, partition.seconds, labels);
  }
  AddMembers(status, families);
}

}  // namespace leat::observe

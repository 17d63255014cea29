#include "show/report/job_status.h"

#include <algorithm>
#include <utility>

#include "base/fields/json.h"

namespace leat::report {
namespace {

// Limits of a trimmed status.
constexpr size_t kMostMembers = 200;
constexpr size_t kMostVariables = 100;
constexpr size_t kMostParts = 50;  // per variable
constexpr size_t kMostPeers = 20;  // unreachable ones of a member
constexpr size_t kMostBots = 50;
constexpr size_t kMostEvicted = 20;
constexpr size_t kMostWarnings = 20;

// Keeps the `most` items with the highest ranks, in their order, and says how many there were.
template <class T, class Rank>
void Keep(size_t most, const Rank& rank, std::vector<T>* items, uint64_t* all) {
  if (items->size() <= most) return;
  *all = items->size();
  std::vector<size_t> order(items->size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return rank((*items)[i]); });
  order.resize(most);
  std::ranges::sort(order);
  std::vector<T> kept;
  for (const size_t i : order) kept.push_back(std::move((*items)[i]));
  *items = std::move(kept);
}

}  // namespace

std::string MemberName::Text() const {
  return (standby() ? state : role) + " " + std::to_string(index);
}

size_t JobStatus::Count(std::string_view role) const {
  return static_cast<size_t>(
      std::ranges::count_if(members, [role](const MemberStatus& m) { return m.name.Works(role); }));
}

// Host names and reasons of dead letters may contain invalid UTF-8, which JsonText replaces.
std::string ToJson(const JobStatus& status) {
  return fields::ToJson(status);
}

Result<JobStatus> StatusFromJson(std::string_view json) {
  return fields::FromAnyJson<JobStatus>(json, "the status of the job", Code::kDataLoss);
}

JobStatus Trimmed(JobStatus status) {
  const auto as_they_are = [](const auto&) { return 0; };
  const auto bytes = [](const auto& item) { return item.bytes; };
  Keep(
      kMostMembers,
      [](const MemberStatus& m) {
        return (m.stuck || !m.unreachable.empty() ? 4 : 0) + (m.worker && m.worker->slow ? 2 : 0) +
               (m.name.role == "ps" ? 1 : 0);
      },
      &status.members, &status.all_members);
  for (MemberStatus& m : status.members) Keep(kMostPeers, as_they_are, &m.unreachable, &m.all_unreachable);
  if (status.variables) {
    Keep(kMostVariables, bytes, &*status.variables, &status.all_variables);
    for (VariableStatus& v : *status.variables) Keep(kMostParts, bytes, &v.ps, &v.all_ps);
  }
  Keep(kMostBots, as_they_are, &status.bots, &status.all_bots);
  Keep(kMostEvicted, as_they_are, &status.stuck_evicted, &status.all_stuck_evicted);
  Keep(kMostWarnings, as_they_are, &status.warnings, &status.all_warnings);
  return status;
}

}  // namespace leat::report

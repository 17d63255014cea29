#include "run/launcher/wanted_roles.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "base/exit_status.h"

namespace leat::launcher {
namespace {

// Consecutive failures of one role, without progress of the job, before the job is given up.
constexpr int kMaxFailedStarts = 5;

}  // namespace

std::vector<WantedRoles::Order> WantedRoles::OnStatus(const report::JobStatus& status) {
  const auto& wanted = status.wanted;
  if (!wanted || status.phase == "stopping" || status.phase == "ended") return {};
  const bool may_drain = status.phase == "running" || status.phase == "paused";
  std::vector<Order> orders;
  const auto order = [&](const char* role, uint32_t number, bool chosen) {
    const auto obeyed = obeyed_.find(role);
    const bool may_start = chosen || obeyed == obeyed_.end() || obeyed->second != number;
    if (may_drain) obeyed_[role] = number;
    if (may_start || may_drain) orders.push_back({role, number, may_start, may_drain});
  };
  if (wanted->ps) order("ps", *wanted->ps, false);
  if (wanted->workers) order("worker", *wanted->workers, wanted->range.has_value());
  return orders;
}

WantedRoles::Change WantedRoles::ChangeFor(const Order& order, std::vector<Process> staying,
                                           const std::set<uint32_t>& taken) {
  Change change;
  for (uint32_t index = 0; order.may_start && staying.size() + change.starts.size() < order.count; ++index) {
    if (!taken.contains(index)) change.starts.push_back(index);
  }
  // The last ones of both kinds, those that are no members first.
  std::ranges::sort(staying, {}, [](const Process& p) { return std::tuple(!p.member, p.index, p.pid); });
  while (order.may_drain && staying.size() > order.count) {
    change.drains.push_back(staying.back().pid);
    staying.pop_back();
  }
  return change;
}

bool Restarts::MayRestart(const ProcessEnd& end, bool coordinator) {
  const AfterExit after = AfterExitOf(end.exit_code, coordinator);
  if (after == AfterExit::kRestart) return ++failed_starts_[end.name] <= kMaxFailedStarts;
  return after == AfterExit::kRestartForEver;
}

Duration PauseAfter(int failures) {
  constexpr Duration kFirst = std::chrono::milliseconds(500), kMost = std::chrono::seconds(10);
  return std::min<Duration>(kFirst * (1 << std::min(failures, 10)), kMost);
}

void Restarts::OnProgress(const std::function<bool(const std::string& name)>& waits) {
  failed_starts_.clear();
  // The progress is not that of a process which still could not be started.
  std::erase_if(retries_, [&](const auto& retry) { return !waits(retry.first); });
}

int ExitStatusAfter(int exit_code) {
  const bool known = exit_code == ExitStatus::kBadInput || exit_code == ExitStatus::kMayHeal ||
                     exit_code == ExitStatus::kInterrupted;
  return known ? exit_code : ExitStatus::kFailed;
}

std::string HowEnded(const ProcessEnd& end) {
  const bool crashed = end.exit_code > ExitStatus::kSignal;
  return "ended (" +
         (crashed ? "signal " + std::to_string(end.exit_code - ExitStatus::kSignal)
                  : "status " + std::to_string(end.exit_code)) +
         (end.last_error.empty() || crashed ? ")" : ": " + end.last_error + ")");
}

}  // namespace leat::launcher

#include "run/roles/status/job_warnings.h"

#include <chrono>

#include "base/log.h"

namespace leat::roles {
namespace {

// A wait that lasts for so long is logged.
constexpr Duration kLoggedWait = std::chrono::seconds(1);

// Logs troubles that have come, and those that are over. `logged`: those there were before.
template <class About>
void LogChanges(std::map<About, std::string> now, std::map<About, std::string>* logged) {
  for (const auto& [about, text] : now) {
    if (!logged->contains(about)) spdlog::warn("{}", text);
  }
  for (const auto& [about, text] : *logged) {
    if (!now.contains(about)) spdlog::info("over: {}", text);
  }
  *logged = std::move(now);
}

}  // namespace

void JobWarnings::OnStatus(Time now, const protocol::CoordinatorStatus& status) {
  LogUnreachable(status);
  LogChanges(status.misplaced, &misplaced_);
  LogWait(now, status.waiting_for);
}

void JobWarnings::LogUnreachable(const protocol::CoordinatorStatus& status) {
  std::map<std::pair<NodeId, NodeId>, std::string> now;
  for (const auto& [worker, peer] : status.unreachable) {
    const auto *from = status.view.Find(worker), *to = status.view.Find(peer);
    if (from == nullptr || to == nullptr) continue;
    now[{worker, peer}] =
        protocol::Name(*from) + " cannot reach " + protocol::Name(*to) + " at " + to->address;
  }
  LogChanges(std::move(now), &unreachable_);
}

// Once for each reason that lasts.
void JobWarnings::LogWait(Time now, const std::string& what) {
  if (what != waits_for_) {
    waits_for_ = what;
    waits_since_ = now;
    wait_is_logged_ = false;
  } else if (!what.empty() && !wait_is_logged_ && now - waits_since_ > kLoggedWait) {
    wait_is_logged_ = true;
    spdlog::warn("the job waits for {}", what);
  }
}

void JobWarnings::OnFailedCheckpoints(const protocol::CoordinatorStatus& status) {
  if (status.failed_checkpoints <= failed_checkpoints_) return;
  spdlog::warn("a checkpoint failed ({} since the start): {}", status.failed_checkpoints,
               status.checkpoint_failure);
  failed_checkpoints_ = status.failed_checkpoints;
}

}  // namespace leat::roles

#include "run/roles/status/drift_response.h"

#include <string>
#include <utility>
#include <variant>

#include "base/log.h"

namespace leat::roles {

DriftResponse::DriftResponse(net::Loop& loop, std::optional<metrics::DriftConfig> config, Callbacks callbacks)
    : loop_(loop), config_(std::move(config)), callbacks_(std::move(callbacks)) {}

void DriftResponse::OnAlarms(const std::vector<report::DriftAlarm>& alarms) {
  if (alarms.empty()) return;
  for (const auto& alarm : alarms) {
    spdlog::warn("drift: alarm {} of {} on {} at event {}; the mean before it was {:.4f}", alarm.number,
                 config_->detector_name(), fields::NameOf(config_->on), alarm.event, alarm.mean);
  }
  // Later, because the request with the alarm is not handled yet.
  using Alarm = metrics::DriftConfig::Alarm;
  if (config_->alarm == Alarm::kCheckpoint) loop_.Post([this] { MakeCheckpoint(); });
  if (config_->alarm == Alarm::kRaiseRate) loop_.Post([this] { RaiseRate(); });
}

void DriftResponse::RaiseRate() {
  auto actions = callbacks_.raise();
  for (const auto& action : actions) {
    const auto* journal = std::get_if<protocol::AppendJournal>(&action);
    const auto* raised = journal != nullptr ? std::get_if<protocol::RateRaised>(&journal->record) : nullptr;
    if (raised == nullptr) continue;
    std::string where;
    for (size_t p = 0; p < raised->first.size(); ++p) {
      where += (p == 0 ? "partition " : ", ") + std::to_string(p) + " from offset " +
               std::to_string(raised->first[p].offset) + " to " + std::to_string(raised->last[p].offset);
    }
    spdlog::info("drift: the learning rate times {} for {}", raised->factor, where);
  }
  callbacks_.commit(std::move(actions));
}

void DriftResponse::MakeCheckpoint() {
  callbacks_.request(protocol::AdminRequest{protocol::AdminRequest::Kind::kCheckpoint},
                     [](const protocol::ControlReply& reply) {
                       const auto* done = std::get_if<protocol::AdminReply>(&reply);
                       if (done != nullptr && !done->status.ok())
                         spdlog::warn("no checkpoint after an alarm of drift: {}", done->status.ToString());
                     });
}

}  // namespace leat::roles

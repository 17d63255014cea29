#include "run/roles/autoscale/scaling.h"

#include <algorithm>

#include "base/log.h"

namespace leat::roles {

using Phase = protocol::CoordinatorStatus::Phase;

protocol::Load LoadOf(const protocol::CoordinatorStatus& status, Duration oldest) {
  protocol::Load load{.ready = status.phase == Phase::kRunning,
                      .trained = status.events,
                      .lag = status.lag,
                      .oldest = oldest};
  for (const uint64_t end : status.ends) load.arrived += end;
  for (const protocol::Member& member : status.view.members) {
    if (member.state != protocol::Member::State::kActive) continue;
    load.workers += member.role == protocol::Role::kWorker ? 1 : 0;
    load.servers += member.role == protocol::Role::kServer ? 1 : 0;
  }
  load.training = load.ready && load.workers > 0;
  return load;
}

Scaling::Scaling(net::Loop& loop, const job::AutoscaleSpec& spec, const std::string& job,
                 metrics::Registry& registry, control::ScalerServer* scaler, bool workers_hold_state)
    : spec_(spec),
      scaler_(scaler),
      workers_hold_state_(workers_hold_state),
      workers_(registry.gauge("leat_wanted_workers", "Workers that the job wants; 0: not known yet.")),
      servers_(registry.gauge("leat_wanted_ps", "Parameter servers that the job wants.")) {
  if (!spec_.command.empty()) hook_.emplace(loop, spec_, job);
}

void Scaling::OnStatus(Time now, const protocol::CoordinatorStatus& status, Duration oldest) {
  Choose(now, status, oldest);
  protocol::CoordinatorStatus::Wanted wanted = status.wanted;
  Fill(&wanted);
  workers_.Set(wanted.now());
  servers_.Set(wanted.servers);
  const bool ends = status.phase == Phase::kStopping || status.phase == Phase::kEnded;
  if (hook_ && wanted.now() > 0 && !ends) hook_->Want(now, {wanted.now(), wanted.servers});
  if (scaler_ == nullptr) return;
  const bool open = status.predictions && status.predictions->behind > 0;
  needs_workers_ = activity_.OnLoad(now, LoadOf(status, oldest), open) || workers_hold_state_;
  scaler_->Set({.workers = wanted.now(), .active = needs_workers_ && status.phase != Phase::kEnded});
}

void Scaling::Choose(Time now, const protocol::CoordinatorStatus& status, Duration oldest) {
  const protocol::WorkerRange range = status.wanted.workers;
  if (range.fixed()) {
    autoscaler_.reset();
  } else if (!autoscaler_) {
    autoscaler_.emplace(protocol::AutoscalerConfig{
        .least = range.least, .most = range.most, .lag = spec_.lag, .cool_down = spec_.cool_down});
  } else if (range != range_) {
    autoscaler_->SetRange(range.least, range.most);
  }
  range_ = range;
  if (!autoscaler_) return;
  const uint32_t before = autoscaler_->decision().workers;
  const protocol::ScaleDecision& decision = autoscaler_->OnLoad(now, LoadOf(status, oldest));
  if (decision.workers != before) spdlog::info("autoscaler: {}", decision.reason);
}

void Scaling::Fill(protocol::CoordinatorStatus::Wanted* wanted) const {
  if (autoscaler_ && !wanted->workers.fixed()) {
    wanted->chosen = std::min(autoscaler_->decision().workers, wanted->workers.most);
    wanted->reason = autoscaler_->decision().reason;
  }
  if (hook_) wanted->hook_failure = hook_->failure();
}

}  // namespace leat::roles

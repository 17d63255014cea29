// How many workers and servers a job wants: as it was set, or as the autoscaler chooses. The coordinator
// shows it in its status and as gauges, and tells the hook or KEDA.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "job/job.h"
#include "net/loop.h"
#include "net/rpc/scaler/scaler_server.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/scaling/autoscaler.h"
#include "run/roles/autoscale/scale_hook.h"

namespace leat::roles {

// Loop's thread only.
class Scaling {
 public:
  // `job`: its name. The gauges are leat_wanted_workers (0: not known yet) and leat_wanted_ps.
  // `scaler`: null, there is none. `workers_hold_state`: without servers, so that the job needs workers
  // always.
  Scaling(net::Loop& loop, const job::AutoscaleSpec& spec, const std::string& job,
          metrics::Registry& registry, control::ScalerServer* scaler = nullptr,
          bool workers_hold_state = false);

  // To be called a few times a second. `oldest`: how long the oldest event has waited that some slice lacks.
  void OnStatus(Time now, const protocol::CoordinatorStatus& status, Duration oldest);
  // Workers chosen within the range; 0: not known yet.
  uint32_t chosen() const { return autoscaler_ ? autoscaler_->decision().workers : 0; }
  // False while the scaler says that the job may go without workers.
  bool needs_workers() const { return needs_workers_; }
  // Adds figures that the coordinator does not know itself.
  void Fill(protocol::CoordinatorStatus::Wanted* wanted) const;

 private:
  void Choose(Time now, const protocol::CoordinatorStatus& status, Duration oldest);

  const job::AutoscaleSpec spec_;
  control::ScalerServer* const scaler_;
  const bool workers_hold_state_;
  protocol::Activity activity_;
  bool needs_workers_ = true;
  metrics::Gauge& workers_;
  metrics::Gauge& servers_;
  protocol::WorkerRange range_;
  std::optional<protocol::Autoscaler> autoscaler_;  // none: the number is fixed
  std::optional<ScaleHook> hook_;                   // none: the job has none
};

// A job at the moment of its status, for the autoscaler.
protocol::Load LoadOf(const protocol::CoordinatorStatus& status, Duration oldest);

}  // namespace leat::roles

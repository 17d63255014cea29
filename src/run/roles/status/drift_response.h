// The job's response to alarms of its drift detector: a checkpoint, or a raised learning rate for a while.
// Loop's thread only.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/metrics/drift.h"
#include "net/loop.h"
#include "protocol/coordinator/coordinator.h"
#include "show/report/progress.h"

namespace leat::roles {

class DriftResponse {
 public:
  struct Callbacks {
    std::function<void(protocol::AdminRequest, std::function<void(protocol::ControlReply)>)> request;
    std::function<protocol::CoordinatorActions()> raise;  // Coordinator::OnDrift
    std::function<void(protocol::CoordinatorActions)> commit;
  };
  // The callbacks are called later than OnAlarms, from the loop. `config`: none, the job has no detector.
  DriftResponse(net::Loop& loop, std::optional<metrics::DriftConfig> config, Callbacks callbacks);

  void OnAlarms(const std::vector<report::DriftAlarm>& alarms);

 private:
  void MakeCheckpoint();
  void RaiseRate();

  net::Loop& loop_;
  const std::optional<metrics::DriftConfig> config_;
  const Callbacks callbacks_;
};

}  // namespace leat::roles

// The coordinator's requests for the distribution of gradients, which TensorBoard shows (gradient_report.h).
// Gradients come from the first worker that reports, once in a while. If it trains nothing more, another one
// is asked later. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <variant>

#include "base/clock.h"
#include "protocol/messages_control.h"

namespace leat::roles {

class GradientRequests {
 public:
  explicit GradientRequests(bool wanted) : wanted_(wanted) {}

  void OnHeartbeat(Time now, uint64_t call, const protocol::ControlRequest& request) {
    const auto* worker = std::get_if<protocol::WorkerHeartbeat>(&request);
    if (worker != nullptr && wanted_ && now >= due_ && worker->progress.steps > 0) call_ = call;
  }
  void AddOrder(Time now, uint64_t call, protocol::ControlReply* reply) {
    auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(reply);
    if (call != call_ || worker == nullptr) return;
    worker->gradients_wanted = true;
    due_ = now + kPause;
  }

 private:
  // From one worker's gradients to the next, and for the answer to the question.
  static constexpr Duration kPause = std::chrono::seconds(10);

  const bool wanted_;
  uint64_t call_ = 0;  // the heartbeat whose answer asks for gradients; 0: none yet
  Time due_{0};
};

}  // namespace leat::roles

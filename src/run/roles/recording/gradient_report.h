// The distribution of a worker's gradients, when the coordinator asks for it. Loop's thread only.
#pragma once

#include <utility>

#include "protocol/messages_control.h"
#include "protocol/parameters.h"
#include "show/tensorboard/gradients.h"

namespace leat::roles {

class GradientReport {
 public:
  void OnReply(const protocol::WorkerHeartbeatReply& reply) { wanted_ = wanted_ || reply.gradients_wanted; }
  // Whether the next gradients are to be taken.
  bool wanted() const { return wanted_; }
  void Take(const protocol::Parameters& parameters) {
    wanted_ = false;
    taken_ = tensorboard::EncodeGradients(parameters.table().variables,
                                          [&](size_t v) { return parameters.gradients(v); });
  }
  // Once: if the heartbeat is lost, the coordinator asks again.
  void Fill(protocol::WorkerHeartbeat* heartbeat) { heartbeat->gradients = std::exchange(taken_, {}); }

 private:
  bool wanted_ = false;
  Bytes taken_;
};

}  // namespace leat::roles

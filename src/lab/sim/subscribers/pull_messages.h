// Pulls of subscribers: their way to a server or a member of a group, and the values on their way back.
//
// A pull that a server parks is answered once, or forgotten when either of the two is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "lab/sim/members/role_process.h"
#include "lab/sim/subscribers/subscriber_processes.h"
#include "protocol/server/server.h"

namespace leat::sim {

class PullMessages : Concern {
 public:
  using Concern::Concern;

  void Send(const SubscriberPtr& from, const protocol::SendPush& a);
  // Answers a parked pull that is ready. False if the ticket is not that of a pull.
  bool Answer(const ProcessPtr& p, protocol::Server::Ready* ready);
  // The server's process has ended, or joins again.
  void ForgetServer(const ProcessPtr& server);
  // The subscriber has closed its connection to the server.
  void ForgetFrom(const SubscriberPtr& from, NodeId server);
  // Whether a server has ever sent these values of a slice.
  bool WasSent(const protocol::SliceRef& ref, std::span<const float> values) const;

 private:
  using AnswerFunction = std::function<void(protocol::PushReply reply, std::vector<float> values)>;
  struct Pull {
    ProcessPtr server;
    SubscriberPtr from;
    AnswerFunction answer;
  };

  void Arrive(const ProcessPtr& p, const SubscriberPtr& from, const protocol::PushRequest& request,
              const AnswerFunction& answer);
  // Values in a reply, one slice after the other.
  std::vector<float> ValuesOf(const RoleProcess& p, const protocol::PushReply& reply);

  std::map<uint64_t, Pull> parked_;  // by ticket
  uint64_t last_ = 0;
  std::map<std::tuple<SliceId, Incarnation, uint64_t>, std::vector<float>> sent_;  // values, for the check
};

}  // namespace leat::sim

// Processes of a virtual cluster that follow the parameters: they join, and pull all slices again and again.
//
// A pull goes to a server or a member of a group; one that a server parks is answered once, or forgotten when
// either of the two is gone. Checks that the values of a completed sweep are those that the servers had when
// they were asked, or later (kSubscribersCurrent).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "lab/sim/members/role_process.h"
#include "protocol/server/server.h"
#include "protocol/subscribers/subscriber.h"

namespace leat::sim {

struct SubscriberProcess : Process {
  // The values of all slices, one after the other, and which they are. Rounds take turns with two of them, as
  // a process that answers with the one while it fills the other.
  struct Memory {
    std::vector<float> values;
    protocol::SubscribedValues held;
  };
  std::unique_ptr<protocol::Subscriber> machine;
  std::array<Memory, 2> memories;
  size_t filled = 0;  // index of the round's memory
  uint32_t incarnation = 0;
  bool joined = false;
  bool heartbeat_in_flight = false;
  NodeId node;
  Time last_heartbeat{0};
  Time wake_at = Time::max();
  std::map<NodeId, uint64_t> connections;  // their numbers: a message of an earlier one is void
  std::vector<protocol::SliceRef> placed;  // slices on the servers when the round began, as of its view
  std::map<SliceId, protocol::SliceRef> completed;  // slices of the last round
  std::optional<Time> last_asked;                   // when the last round asked
};

using SubscriberPtr = std::shared_ptr<SubscriberProcess>;

class Subscribers : Concern {
 public:
  using Concern::Concern;

  // Starts those that the options want, unless they run.
  void StartAll();
  // Schedules random faults of subscribers.
  void InjectFaults();

  // ---- parked pulls
  // Answers one that is ready. False if the ticket is not that of a pull.
  bool AnswerPull(const ProcessPtr& p, protocol::Server::Ready* ready);
  // The server's process has ended, or joins again.
  void ForgetServer(const ProcessPtr& server);

 private:
  using AnswerFunction = std::function<void(protocol::PushReply reply, std::vector<float> values)>;
  struct Pull {
    ProcessPtr server;
    SubscriberPtr from;
    AnswerFunction answer;
  };

  void Join(const SubscriberPtr& s);
  void AskToJoin(const SubscriberPtr& s);
  void SendHeartbeat(const SubscriberPtr& s);
  void Wake(const SubscriberPtr& s);
  void WakeAt(const SubscriberPtr& s, Time at);
  void ExecuteAll(const SubscriberPtr& s, const protocol::SubscriberActions& actions);
  void Execute(const SubscriberPtr& s, const protocol::StopRole&) { Join(s); }
  void Execute(const SubscriberPtr& s, const protocol::Disconnect& a);
  void Execute(const SubscriberPtr& s, const protocol::SendPush& a);
  void Execute(const SubscriberPtr& s, const protocol::BeginSweep& a);
  void Execute(const SubscriberPtr& s, const protocol::CompleteSweep& a);
  // Completed values must be those that the servers had when they were asked, or later.
  void CheckCompleted(const SubscriberPtr& s);
  // A pull has come to a server, or to a member of a group.
  void Arrive(const ProcessPtr& p, const SubscriberPtr& from, const protocol::PushRequest& request,
              const AnswerFunction& answer);
  // Values in a reply, one slice after the other.
  std::vector<float> ValuesOf(const RoleProcess& p, const protocol::PushReply& reply);
  void OnReply(const SubscriberPtr& s, NodeId server, const protocol::PushReply& reply,
               const std::vector<float>& values);

  std::vector<SubscriberPtr> subscribers_;
  std::map<uint64_t, Pull> parked_;  // by ticket
  uint64_t last_pull_ = 0;
  std::map<std::tuple<SliceId, Incarnation, uint64_t>, std::vector<float>> sent_;  // values, for the check
};

}  // namespace leat::sim

// Processes of a virtual cluster that follow the parameters: they join, and pull all slices again and again.
//
// Checks that the values of a completed sweep are those that the servers had when they were asked, or later
// (kSubscribersCurrent).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "lab/sim/members/role_process.h"
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

class SubscriberProcesses : Concern {
 public:
  using Concern::Concern;

  // Starts those that the options want, unless they run.
  void StartAll();
  // Schedules random faults of subscribers.
  void InjectFaults();
  // A server has answered a pull.
  void OnReply(const SubscriberPtr& s, NodeId server, const protocol::PushReply& reply,
               const std::vector<float>& values);
  void OnFailed(const SubscriberPtr& s, NodeId server, uint64_t sequence);

  const SubscriberCounts& counts() const { return counts_; }

 private:
  void Start();
  void Join(const SubscriberPtr& s);
  void AskToJoin(const SubscriberPtr& s);
  void SendHeartbeat(const SubscriberPtr& s);
  void Wake(const SubscriberPtr& s);
  void WakeAt(const SubscriberPtr& s, Time at);
  void ExecuteAll(const SubscriberPtr& s, const protocol::SubscriberActions& actions);
  void Execute(const SubscriberPtr& s, const protocol::StopRole& a);
  void Execute(const SubscriberPtr& s, const protocol::Disconnect& a);
  void Execute(const SubscriberPtr& s, const protocol::SendPush& a);
  void Execute(const SubscriberPtr& s, const protocol::BeginSweep& a);
  void Execute(const SubscriberPtr& s, const protocol::CompleteSweep& a);
  void CheckCompleted(const SubscriberPtr& s);

  std::vector<SubscriberPtr> subscribers_;
  SubscriberCounts counts_;
};

}  // namespace leat::sim

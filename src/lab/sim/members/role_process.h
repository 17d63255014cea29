// The processes of a virtual cluster's workers and servers, and the table of those that live. As members of
// the job they start, join, send heartbeats, join again and end; and each action of their machines goes to
// the concern that executes it.
//
// A process keeps its slot for good, and joins again, with the next incarnation, when it is evicted. A
// message or timer of an earlier incarnation is void. The table owns the processes; dead ones are null.
// Others find a process by the address at which it listens, which its successor may take over.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "lab/sim/allreduce/group_parts.h"
#include "lab/sim/cluster/world.h"
#include "lab/sim/hosts/link_queue.h"
#include "protocol/server/server.h"
#include "protocol/succession/election.h"
#include "protocol/worker/worker.h"

namespace leat::sim {

// Addresses of coordinators. With a shared directory only the first two are used.
constexpr uint32_t kAddresses = 3;

struct Process {
  virtual ~Process() = default;
  bool alive = true;
  uint32_t contact = 0;  // the address of the coordinator that it calls
  Time paused_until{0};
  Time cut_off_until{0};                             // from all coordinators, in both directions
  std::array<Time, kAddresses> cut_from_until = {};  // from the coordinator or standby at one address
};

// A direction of a connection. Messages arrive in order.
struct Direction {
  static constexpr uint32_t kNone = UINT32_MAX;
  Time last{0};             // arrival of the last message's first byte
  uint32_t queued = kNone;  // the last message, if they wait for their turns on the link
};

// A worker's connection to a server.
struct Connection {
  NodeId server;
  uint32_t number = 0;      // incremented when it closes: messages in transit are then void
  uint32_t address_id = 0;  // the server's
  Direction there, back;
};

// Queue of a worker's input thread.
struct InputQueue {
  struct Split {
    uint64_t lease = 0;
    uint64_t events = 0;
  };
  std::deque<Split> waiting;  // the first one is being read or decoded
  bool reading = false;
  uint64_t unrequested = 0, missing = 0;  // bytes of the split being read
};

// Minimum time between urgent heartbeats, as in the shells in roles/.
constexpr Duration kUrgentGap = std::chrono::milliseconds(10);

// The part of a process that each message needs.
constexpr size_t kHotProcessBytes = 128;

// A server or a worker. The fields that every message needs come first, in two cache lines, because there may
// be thousands of processes.
struct alignas(64) RoleProcess : Process {
  bool joined = false;
  bool heartbeat_in_flight = false;
  bool standby = false;
  protocol::Role role = protocol::Role::kWorker;
  uint32_t incarnation = 0;  // incarnation of the machine: incremented when the process joins again
  HostState* host = nullptr;
  // ---- a worker
  std::unique_ptr<protocol::Worker> worker;
  Time waiting_since{-1};
  std::unique_ptr<WorkerMemory> memory;
  std::unique_ptr<GroupMemberParts> group_member;  // all-reduce
  // ---- a server
  std::unique_ptr<protocol::Server> server;

  MessageCost cost;  // on its host
  Duration owed{0};  // a worker: time for messages, which delays its next batch
  struct {
    uint64_t in = 0, out = 0;
  } bytes;
  Time busy_until{0};       // with received messages
  Time isolated_until{0};   // from all others
  uint32_t slot = 0;        // permanent index in the table
  uint32_t started = 0;     // the number of processes of its role started before it
  uint32_t host_index = 0;  // in ClusterOptions::hosts, if there are any
  double speed = 1;         // speed of its host
  uint32_t address_id = 0;  // where others connect to it; 0: a worker without a listener
  NodeId node;
  protocol::Promises promises;
  Time last_heartbeat{0};
  Time wake_at = Time::max();
  std::deque<std::pair<uint64_t, Time>> parked;          // a server's tickets, and since when they are parked
  uint32_t move_target = 0;                              // address of the server that its last move goes to
  std::vector<std::unique_ptr<Connection>> connections;  // ordered by server; their addresses are stable
  InputQueue input;
  protocol::WorkerProgress progress;
};

using ProcessPtr = std::shared_ptr<RoleProcess>;

// Whether the server is alive, in the same incarnation as before.
inline bool SameServer(const RoleProcess& p, uint32_t incarnation) {
  return p.alive && p.incarnation == incarnation && p.server;
}

class ProcessTable : Concern {
 public:
  using Concern::Concern;

  static constexpr uint32_t kNobody = UINT32_MAX;

  // A new process of a role. `address`: where it listens; empty: at a new address. A worker of servers does
  // not listen.
  ProcessPtr Add(protocol::Role role, bool standby, const std::string& address);
  void Remove(const RoleProcess& p);

  const ProcessPtr& operator[](uint32_t slot) const { return by_slot_[slot]; }
  const std::vector<ProcessPtr>& processes() const { return by_slot_; }
  std::vector<ProcessPtr> All(protocol::Role role) const;
  // The newest values of all slices, in table order; false if no process has a slice at present.
  bool Values(std::vector<float>* values) const;
  // A random live process; null if the role has none.
  ProcessPtr Any(protocol::Role role);

  // The number of an address; 0: of none.
  uint32_t AddressIdOf(const std::string& address);
  const std::string& AddressOf(uint32_t id) const { return addresses_[id].address; }
  // The slot of the process at an address, or kNobody.
  uint32_t SlotAt(uint32_t id) const { return addresses_[id].slot; }
  // The process at an address; null if there is none.
  const ProcessPtr& At(uint32_t id) const {
    const uint32_t slot = SlotAt(id);
    return slot == kNobody ? nobody_ : by_slot_[slot];
  }

 private:
  struct Address {
    std::string address;
    uint32_t slot = kNobody;
  };

  std::vector<ProcessPtr> by_slot_;                           // by slot
  std::vector<Address> addresses_ = std::vector<Address>(1);  // by number; the first is unused
  std::unordered_map<std::string, uint32_t> address_ids_;     // by address
  uint64_t last_address_ = 0;
  const ProcessPtr nobody_;
  uint32_t started_servers_ = 0, started_workers_ = 0;
};

// Invariant: a process is in the table from its start to its end, and its machine is that of its incarnation.
class RoleProcesses : Concern {
 public:
  using Concern::Concern;

  // The processes with which a job begins.
  void StartAll();
  // `address`: where it listens; empty: at a new one. `host` as in Machines::PutOnHost.
  void Start(protocol::Role role, std::string address = "", bool standby = false,
             uint32_t host = HostState::kAny);
  void JoinAgain(const ProcessPtr& p);
  // The process has ended. Its state is dropped, and messages to it find no receiver.
  void OnExit(const ProcessPtr& p);

  // Executes the actions of one input in order, as long as the process is in the incarnation that wanted
  // them. A worker's heartbeat that has become urgent follows.
  template <class Actions>
  void ExecuteAll(const ProcessPtr& p, const Actions& actions);

  bool Urgent(const RoleProcess& p) const;  // its next heartbeat
  // Sends a heartbeat if one is due, or sets the timer for it.
  void MaybeSendHeartbeat(const ProcessPtr& p);
  // Does what is due, and sets the timer for what is due next.
  void Wake(const ProcessPtr& p);
  void OnTimer(uint32_t slot, Time at);

  // The last known progress of every server that ever existed.
  const std::map<NodeId, protocol::ServerProgress>& progress() const { return progress_; }

 private:
  void Execute(const ProcessPtr& p, const protocol::StopRole& a);
  void Join(const ProcessPtr& p);
  void AskToJoin(const ProcessPtr& p, const std::function<void()>& again);
  void SendHeartbeat(const ProcessPtr& p);
  void OnHeartbeatReply(const ProcessPtr& p, const std::optional<protocol::ControlReply>& reply);
  uint64_t TermOf(const RoleProcess& p) const;  // term of the coordinator that it follows
  void WakeAt(const ProcessPtr& p, Time at);

  std::map<NodeId, protocol::ServerProgress> progress_;
};

}  // namespace leat::sim

// Pushes on their way from workers to servers, and the replies on their way back.
//
// A message occupies one slot of a slab from its sending to the end of its reply. Messages of a connection
// arrive in order; a message of a closed connection, or of an earlier incarnation of its worker, is void.
// Messages are delayed, lost, duplicated, and cut off as the options say. This is the path of every message:
// it allocates nothing, and calls nothing virtual.
#pragma once

#include <memory>
#include <vector>

#include "lab/sim/events/memory.h"
#include "lab/sim/members/role_process.h"
#include "protocol/server/server.h"
#include "protocol/worker/worker.h"

namespace leat::sim {

// A push in transit, or its reply, in the same memory: three cache lines, because there are tens of thousands
// of messages. Many events need only the first line.
struct alignas(64) Message {
  uint32_t from = 0;  // slot of the worker
  uint32_t to = 0;    // slot of the server, known on arrival
  uint32_t from_incarnation = 0, to_incarnation = 0;
  Connection* way = nullptr;  // the worker's, valid within its incarnation
  uint32_t connection = 0;
  uint32_t serial = 0;  // number of this use of the memory
  uint64_t bytes = 0;
  Time last_byte{0};        // at the receiver's link, if that were free
  uint32_t address_id = 0;  // id of the addressed server; another process may be there by now
  bool back = false;
  bool wanted = true;  // the reply is still expected
  bool failed = false;
  Route route = Route::kLink;
  std::shared_ptr<const protocol::PushRequest> request;
  protocol::PushReply reply;
  std::shared_ptr<const std::vector<float>> gradient;
  std::shared_ptr<std::vector<float>> values;  // values of `reply`, one slice after the other
  uint64_t unsent = 0;                         // bytes; on arrival, those that arrive last
  uint32_t next = Direction::kNone;            // the message behind it in the queue
  static constexpr uint32_t kWhole = UINT32_MAX;
  uint32_t window = kWhole;  // bytes at a time
};

class PushMessages : Concern {
 public:
  using Concern::Concern;

  // ---- a worker's actions
  void Execute(const ProcessPtr& p, const protocol::SendPush& a);
  void Execute(const ProcessPtr& p, const protocol::Disconnect& a);

  // ---- a server
  Message& operator[](uint32_t m) { return messages_[m]; }
  // Sends the reply of a message back to its worker.
  void SendBack(const ProcessPtr& server, uint32_t m, protocol::PushReply&& reply);
  // There is no receiver: reports a lost connection to the sender, if it waits.
  void Bounce(uint32_t m);
  void Free(uint32_t m);
  // As Bounce, of a message that a server has kept until it ended.
  void Abandon(uint32_t m);

  // ---- events
  void OnArrive(uint32_t m);
  void OnDeliver(uint32_t m);
  void OnCrosses(uint32_t m);
  void OnMoreToSend(uint32_t m);
  // Fetches what an event will access into the cache, one step of indirection per hop of
  // EventQueue::LookAhead. No other effect.
  void PrefetchEvent(const EventQueue::Event& event, int hop);

 private:
  // Reports a lost connection to a worker.
  void Fail(const ProcessPtr& worker, NodeId server, uint64_t sequence);
  // Sends over the host's link, not before `at`, behind what waits in this direction of the connection.
  // `to`: null if there is no receiver. `direction`: null: the message may overtake others.
  void Send(RoleProcess* from, const RoleProcess* to, uint32_t m, Time at, Direction* direction);
  // How many bytes of a message are sent at a time.
  uint32_t DrawWindow(uint64_t bytes);
  // Sends a window of the first message of a queue, and returns true if it was the last one.
  bool SendWindow(RoleProcess* from, const RoleProcess* to, uint32_t m, Time at, Direction* direction);
  // Calls `end` for each message of a queue.
  void LeaveQueue(uint32_t m, void (PushMessages::*end)(uint32_t));
  // The process at the address that the message is for, or the one that replies; null if there is none.
  RoleProcess* ServerOf(const Message& message) const;
  void TakeReply(uint32_t m);
  Connection& ConnectionOf(RoleProcess* worker, NodeId server);
  uint64_t BytesOf(const protocol::PushRequest& request) const;
  uint64_t BytesOf(const protocol::PushReply& reply) const;

  Slab<Message> messages_;
};

}  // namespace leat::sim

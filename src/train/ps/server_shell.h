// A parameter server's data plane: connects protocol::Server to a transport. Loop's thread only.
//
// Gradients are read into a buffer per connection and applied slice by slice while they are in the cache.
// Values are sent from the memory of the slices. In asynchronous training, another worker's update may change
// a slice while it is being sent; its version is the one at which sending began. In stepped strategies,
// updates wait until a slice is sent.
//
// A PeerSender sends slices that move to other servers, and pushes to slices that have a replica; what comes
// from other servers arrives on connections that they make. A push that is to be forwarded is applied when
// all of it has arrived, so that it is forwarded in the same order.
//
// A request that waits for a version is answered when the version is reached. It is answered without values
// if its worker sends another request or after `parked_timeout`, and dropped if the connection closes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/recorder/recorder.h"
#include "net/loop.h"
#include "net/transport.h"
#include "protocol/server/server.h"
#include "train/ps/peer_sender.h"

namespace leat::ps {

class ServerShell {
 public:
  // `loop` must outlive the shell. `parked_timeout` must be shorter than the workers' reply timeout.
  ServerShell(net::Loop& loop, protocol::ServerConfig config,
              Duration parked_timeout = std::chrono::seconds(3));
  ~ServerShell();

  // Enables moves and replicas on other servers. `on_urgent`: a heartbeat should be sent at once, because of
  // something that has come from another server. `transport` must outlive the shell.
  void SendMovesBy(net::Transport& transport, std::function<void()> on_urgent);
  // For tests: called at points where the process may die.
  enum class Point : uint8_t {
    kApplied,
    kMoveOrdered,
    kMoveFrozen,
    kMoveArrived,
    kForwarded,     // a push is on its way to the replica
    kTaken,         // the replica has it
    kAcknowledged,  // the primary knows that
  };
  void AtPoints(std::function<void(Point)> call) { at_point_ = std::move(call); }
  // Records applied pushes on `track` from now on; null: nowhere.
  void RecordTo(timeline::Track* track) { track_ = track; }
  // Takes ownership of an accepted connection. The returned receiver lives as long as the connection.
  net::Receiver* Adopt(std::unique_ptr<net::Connection> connection);
  // Applies the coordinator's heartbeat reply and answers requests that waited for it. The machine itself
  // makes the heartbeats.
  std::vector<protocol::ServerAction> OnHeartbeatReply(const protocol::ServerHeartbeatReply& reply);
  protocol::Server& machine() { return machine_; }
  // Bytes of headers and payloads received and sent so far.
  uint64_t bytes_in() const { return bytes_in_; }
  uint64_t bytes_of_pulls() const { return bytes_of_pulls_; }  // requests for values alone
  uint64_t bytes_out() const { return bytes_out_; }
  uint64_t bytes_moved() const { return peers_ ? peers_->bytes_moved() : 0; }
  uint64_t bytes_forwarded() const { return peers_ ? peers_->bytes_forwarded() : 0; }

 private:
  class MoveReceiver;
  class Session;

  void SendReady();
  void DoForwards();
  // Memory for a push that is forwarded from it.
  Buffer TakeGradients(uint64_t bytes);
  void DoMoves();
  void AnswerMove(uint64_t move, const Status& status);
  void Park(uint64_t ticket, Session* session);
  void ExpireParked();

  net::Loop& loop_;
  Duration parked_timeout_;
  protocol::Server machine_;
  uint64_t last_ticket_ = 0;
  std::unordered_map<uint64_t, Session*> parked_;       // by ticket
  std::deque<std::pair<Time, uint64_t>> parked_since_;  // includes tickets that are no longer parked
  uint64_t timer_ = 0;                                  // 0: nothing is parked
  std::unordered_map<Session*, std::unique_ptr<Session>> sessions_;
  std::optional<PeerSender> peers_;
  Allocate allocate_;
  std::vector<Buffer> gradients_;  // gradients of forwarded pushes; buffers that nobody references are free
  std::function<void()> on_urgent_ = [] {};
  std::function<void(Point)> at_point_ = [](Point) {};
  std::unordered_map<uint64_t, Session*> arrived_moves_;  // by move: where to answer it
  timeline::Track* track_ = nullptr;
  uint64_t bytes_in_ = 0, bytes_of_pulls_ = 0;
  uint64_t bytes_out_ = 0;
};

}  // namespace leat::ps

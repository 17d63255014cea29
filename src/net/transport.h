// The tensor plane: ordered, reliable messages of a small header and a large payload that is read straight
// into, and written straight from, memory of the caller's.
//
// Everything happens on the loop's thread that the transport was made with: calls are made from it and
// upcalls come on it. No call blocks. A peer that stalls in the middle of a message (sending or receiving)
// for longer than the stall timeout, dies, or sends what is not allowed, ends as OnClosed; it never hurts or
// blocks anyone else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "metrics/metrics.h"
#include "net/loop.h"
#include "tensor/buffer.h"

namespace leat::net {

class Connection;

// When a receiver is told that a span of a payload is filled, no more than so many bytes behind that span
// have been written yet. So a span may share memory with an earlier one from whose end it is at least that
// far away: whoever is done with each span in OnSegment needs room for a few of them, not for the whole
// payload.
constexpr uint64_t kReadAhead = 1 << 20;

// What one end does with what arrives. An upcall may close the connection, and destroy it and its receiver.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // A header is here (`type`: the frame's, free for the user). Returns where the payload goes, in order:
  // spans that add up to exactly payload_bytes and stay valid until OnMessage, OnClosed or the connection's
  // destruction. `header` is valid during the call. An error closes the connection.
  virtual Result<std::vector<std::span<std::byte>>> OnHeader(Connection& connection, uint8_t type,
                                                             ByteView header, uint64_t payload_bytes) = 0;
  // Span `i` of the payload lies in memory of the peer's, on this host, where it may be read until OnMessage
  // returns (or longer: Connection::HoldView). True: that is all that is needed; it is not copied, and no
  // OnSegment follows. Transports without such memory never ask.
  virtual bool OnView(Connection& /*connection*/, size_t /*i*/, ByteView /*bytes*/) { return false; }
  // Span `i` of the payload is filled; those before it are too, or were looked at.
  virtual void OnSegment(Connection& /*connection*/, size_t /*i*/) {}
  // The whole message is here.
  virtual void OnMessage(Connection& connection) = 0;
  // Last upcall of this connection, whoever ended it (but not for a connection that is destroyed).
  virtual void OnClosed(Connection& connection, const Status& why) = 0;
};

class Connection {
 public:
  // Closes without an upcall. No memory handed over is touched afterwards, but for memory that a peer on this
  // host may look at (MakeSharedBuffer): what the `done` of a message holds is held until that peer is known
  // to have let go, too. Whoever shares memory writes to it again only when nobody else holds it.
  virtual ~Connection() = default;
  // Queues a message. The payload's memory belongs to the transport until `done` is called, with the status
  // of the sending (not of the arrival), or the connection is destroyed. `done` is called from the loop,
  // never from within Send.
  virtual void Send(uint8_t type, Bytes header, std::vector<ByteView> payload,
                    std::function<void(const Status&)> done = {}) = 0;
  // Ends it now; OnClosed follows from the loop, never from within Close.
  virtual void Close(Status why) = 0;
  // From within OnView: what the message shows may be read until it is released or OnClosed returns, and the
  // peer holds it for as long (but no longer than its stall timeout). A peer's messages after it are let go
  // no earlier.
  virtual void HoldView() {}
  // So many of the messages that are held, the oldest ones first.
  virtual void ReleaseViews(uint32_t /*messages*/) {}
  virtual const std::string& peer() const = 0;  // "127.0.0.1:40123"
};

struct TransportOptions {
  std::string token;  // of the job: shown first by whoever connects, checked first by who accepts
  uint32_t max_header_bytes = 1 << 20;
  uint64_t max_payload_bytes = uint64_t{1} << 34;
  Duration handshake_timeout = std::chrono::seconds(5);
  Duration stall_timeout = std::chrono::seconds(10);
  uint32_t max_pending_handshakes = 256;  // that have not shown their token yet; beyond it the oldest goes
  // That have been accepted and are open; beyond it those that show the token are turned away. Bounds what a
  // peer that connects again and again can take from the others.
  uint32_t max_connections = 4096;
  // Of the ucx transport: whether it may share memory with peers on this host.
  bool shared_memory = true;
  // Of the ucx transport: the networks in between are trusted, so that peers on other hosts may be reached by
  // UCX too, by these of its transports ("rc", "ud", "dc": RDMA; "tcp").
  bool trusted_network = false;
  std::string network_transports = "rc,ud,dc";
  metrics::Registry* metrics = nullptr;  // what is counted goes there
};

class Listener {
 public:
  virtual ~Listener() = default;                   // stops listening; accepted connections live on
  virtual const std::string& address() const = 0;  // with the port that was chosen
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Called with each connection that has shown the token; returns who receives what it sends (must outlive
  // it), or null to turn it away.
  using Accept = std::function<Receiver*(std::unique_ptr<Connection>)>;
  // `address` is "host:port", port 0 = any that is free. Errors name it: "cannot listen on 127.0.0.1:80: …".
  // The one call that may block, when the host is a name that has to be looked up.
  virtual Result<std::unique_ptr<Listener>> Listen(const std::string& address, Accept accept) = 0;
  // `done` gets the connection, its handshake over, or why there is none by the deadline. `receiver` must
  // outlive it. Not called when the transport is destroyed before.
  virtual void Connect(const std::string& address, Receiver* receiver, Duration deadline,
                       std::function<void(Result<std::unique_ptr<Connection>>)> done) = 0;
  // TransportOptions::trusted_network, for who has to listen before that is known. Before the first
  // connection is made or let in, which is not before the loop runs.
  virtual void TrustNetwork(bool /*trusted*/) {}
};

// Memory whose contents peers on this host are shown, not sent, where they are enough to be worth it and the
// transport can do so: zeroed, and gone with the last who holds it. Ordinary memory where the system has no
// such. Thread-safe.
Buffer MakeSharedBuffer(size_t bytes);

std::unique_ptr<Transport> MakeTcpTransport(Loop& loop, TransportOptions options);
// Connections are made, and refused, over tcp. Two ends that find themselves on one host, in processes of one
// user, then send their messages through memory that they share, with UCX; others, and those that cannot,
// stay on tcp: `leat_net_ucx_connections` says how many are open that do not. Both ends are of this
// transport.
std::unique_ptr<Transport> MakeUcxTransport(Loop& loop, TransportOptions options);

}  // namespace leat::net

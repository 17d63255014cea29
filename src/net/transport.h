// Transports: ordered, reliable messages with a small header and a large payload. Payloads are sent from and
// received into the caller's memory directly.
//
// Each transport belongs to a loop: make all calls on the loop's thread; callbacks run there. No call blocks.
// A connection whose peer stalls in the middle of a message for longer than the stall timeout, dies, or
// violates the protocol ends with OnClosed, without affecting other connections.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "base/status.h"
#include "net/frames/handshake.h"
#include "net/loop.h"
#include "net/tls/tls_identity.h"

namespace leat::net {

class Connection;

using Spans = std::vector<std::span<std::byte>>;
using Places = Result<Spans>;                     // destination of a payload, or why a connection ends
using Done = std::function<void(const Status&)>;  // reports how a call has ended

// When OnSegment reports a span, at most this many bytes after that span have been written. A span may
// therefore reuse the memory of an earlier one whose end is at least this far before it. A receiver that
// finishes each span in OnSegment needs memory for a few spans, not for the whole payload.
constexpr uint64_t kReadAhead = 1 << 20;

// Callbacks for what arrives on a connection. A callback may close or destroy the connection and its
// receiver.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // A header has arrived; `type` is the frame type, chosen by the sender. Returns the destination of the
  // payload: ordered spans that add up to payload_bytes and stay valid until OnMessage, OnClosed or
  // destruction of the connection. `header` is valid during the call. An error closes the connection.
  virtual Places OnHeader(Connection& connection, uint8_t type, ByteView header, uint64_t payload_bytes) = 0;
  // Span `i` of the payload is in memory shared by a peer on this host, readable until OnMessage returns (or
  // longer: Connection::HoldView). Return true to consume it in place: it is then neither copied nor reported
  // by OnSegment. Transports without shared memory never call this.
  virtual bool OnView(Connection& /*connection*/, size_t /*i*/, ByteView /*bytes*/) { return false; }
  // Span `i` of the payload is filled. Earlier spans are filled or were accepted by OnView.
  virtual void OnSegment(Connection& /*connection*/, size_t /*i*/) {}
  // The whole message has arrived.
  virtual void OnMessage(Connection& connection) = 0;
  // No sign of life comes from the peer's host, not even from its kernel: `silent`. Or one comes again, on
  // the same connection. Reported of connections that this side has made, and only by transports that use
  // sockets, about seven seconds after the last sign.
  virtual void OnSilence(Connection& /*connection*/, bool /*silent*/) {}
  // The last callback of a connection, whichever side closed it. Not called for a destroyed connection.
  virtual void OnClosed(Connection& connection, const Status& why) = 0;
};

class Connection {
 public:
  // Closes without a callback. Memory passed to Send is not accessed afterwards, except shared memory
  // (MakeSharedBuffer): the transport keeps the `done` callbacks of those messages, and what they own, until
  // the peer has released the memory. The owner may overwrite shared memory only when it holds the only
  // reference.
  virtual ~Connection() = default;
  // Queues a message. The transport may read the payload until it calls `done`, or until the connection is
  // destroyed. `done` gets the status of sending, which does not confirm delivery. It is called from the
  // loop, never inside Send.
  virtual void Send(uint8_t type, Bytes header, std::vector<ByteView> payload, Done done = {}) = 0;
  // From now on this connection gives way to other traffic (tcp/background_rate.h), until it ends. Transports
  // that do not use sockets send as before.
  virtual void SendInBackground() {}
  // Closes now. OnClosed follows from the loop, never inside Close.
  virtual void Close(Status why) = 0;
  // Call inside OnView: the shared payload stays readable until ReleaseViews or OnClosed returns, but at most
  // for the peer's stall timeout. The peer's later payloads stay held too.
  virtual void HoldView() {}
  // Releases the `messages` oldest held messages.
  virtual void ReleaseViews(uint32_t /*messages*/) {}
  virtual const std::string& peer() const = 0;  // "127.0.0.1:40123"
  // The roles of the peer's certificate. Without TLS: all roles.
  virtual CertificateRoles peer_roles() const { return CertificateRoles::All(); }
};

struct TransportOptions {
  std::string token;  // the job's token; verified by both sides of a connection
  // The port of the listening side. Both sides of a connection name the same.
  wire::Port port;
  // Null: no TLS, the networks between the hosts are trusted. Otherwise all connections use TLS, and each
  // side has a certificate whose role fits the port. RDMA is then off.
  std::shared_ptr<TlsIdentity> tls = nullptr;
  uint32_t max_header_bytes = 1 << 20;
  uint64_t max_payload_bytes = uint64_t{1} << 34;
  Duration handshake_timeout = std::chrono::seconds(5);
  Duration stall_timeout = std::chrono::seconds(10);
  // Beyond this the oldest unauthenticated connection is closed, of the host that has most of them.
  uint32_t max_pending_handshakes = 256;
  // Limits of open accepted connections, of all peers and of one host; further ones are refused.
  uint32_t max_connections = 4096;
  uint32_t max_connections_of_host = 1024;
  // ucx transport: allows shared memory with peers on this host.
  bool shared_memory = true;
  // ucx transport: the networks between the hosts are trusted, so UCX may also connect to other hosts, using
  // these UCX transports ("rc", "ud", "dc": RDMA; "tcp").
  bool trusted_network = false;
  std::string network_transports = "rc,ud,dc";
  metrics::Registry* metrics = nullptr;  // null: private counters
};

class Listener {
 public:
  virtual ~Listener() = default;                   // stops listening; accepted connections stay open
  virtual const std::string& address() const = 0;  // with the chosen port
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Called with each authenticated connection. Returns its receiver, which must outlive the connection, or
  // null to refuse it.
  using Accept = std::function<Receiver*(std::unique_ptr<Connection>)>;
  // `address` is "host:port"; port 0 selects a free port. Errors name the address: "cannot listen on
  // 127.0.0.1:80: …". Blocks if the host name has to be looked up.
  virtual Result<std::unique_ptr<Listener>> Listen(const std::string& address, Accept accept) = 0;
  // `done` gets the authenticated connection, or the reason why there is none by the deadline. `receiver`
  // must outlive the connection. Not called if the transport is destroyed first. kDeadlineExceeded: the
  // peer's host is silent. Not even its kernel has answered the attempt, for 1.5 handshake timeouts or until
  // the deadline; or it has fallen silent since, as in OnSilence.
  virtual void Connect(const std::string& address, Receiver* receiver, Duration deadline,
                       std::function<void(Result<std::unique_ptr<Connection>>)> done) = 0;
  // Sets TransportOptions::trusted_network later, for listeners that start before it is known. Call it before
  // the first connection is made or accepted, that is, before the loop runs.
  virtual void TrustNetwork(bool /*trusted*/) {}
  // The number of closed connections whose peers may still read shared memory. If the transport is destroyed
  // before they have released it, that memory is neither written again nor freed in this process.
  virtual size_t lingering() const { return 0; }
};

// Runs the loop, even if it is stopped, until no connection of the transport lingers, at most for `deadline`.
// A process that ends calls this after it has closed its connections, so that peers can finish what they
// read. Loop's thread, not from work that the loop runs. Returns false if connections are left.
bool Linger(Loop& loop, const Transport& transport, Duration deadline);

}  // namespace leat::net

// Authentication of new sockets: TLS begins if the options have an identity, then both sides prove that they
// know the job's token (net/frames/handshake.h). Nothing but the handshakes is read from an unauthenticated
// peer. Loop's thread only.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "net/address.h"
#include "net/frames/handshake.h"
#include "net/same_host/same_host_peer.h"
#include "net/transport.h"
#include "net/transport_context.h"

namespace leat::net {

// Connected and non-blocking. Exactly the handshake has been read, from `tls` if there is one.
struct AuthenticatedSocket {
  Descriptor socket;
  std::string peer;                 // "127.0.0.1:40123"
  std::unique_ptr<TlsSession> tls;  // TLS of the socket; null: no TLS
};

// Listens at "host:port"; port 0 selects a free port. Errors name the address. `on_socket` may destroy the
// listener. Refuses peers for which `shared`, whose counts of connections the caller maintains, has no room.
// A refused peer is a line in the log that names it and the reason; a flood of them, a few lines.
//
// With `protocol` (its name in ALPN), the peers are observers: they know no token and speak it from the first
// byte on. With TLS they need an observer's certificate, without TLS every peer is admitted.
Result<std::unique_ptr<Listener>> ListenAuthenticated(std::shared_ptr<TransportContext> shared,
                                                      const std::string& address,
                                                      std::function<void(AuthenticatedSocket)> on_socket,
                                                      std::optional<std::string> protocol = std::nullopt);

// Makes one attempt to connect and authenticate. `done` runs on the loop, never inside this call, unless the
// returned handle is destroyed first. Returns kDeadlineExceeded if the host does not answer, as
// Transport::Connect does, kPermissionDenied if the peer has another token, and kFailedPrecondition if it
// speaks another version, serves another kind of port, differs in the use of TLS, or if one side refuses the
// other's certificate. A coordinator's certificate must name the host of `address`. If that name has several
// addresses, they are tried in order from number `first` on, the first of them again after the last.
std::shared_ptr<void> ConnectAuthenticated(std::shared_ptr<TransportContext> shared,
                                           const std::string& address, Duration deadline,
                                           std::function<void(Result<AuthenticatedSocket>)> done,
                                           uint32_t first = 0);

// Calls `ended` on the loop once another owner of the connected socket has shut it down. Keeps a duplicate of
// the descriptor until then. The returned handle ends the watch.
std::shared_ptr<void> WatchForShutdown(Loop& loop, int fd, std::function<void()> ended);

// ---- sockets: options of new ones, and the handshake's messages of a fixed size over them

// A peer whose machine has failed sends nothing. The kernel probes an idle connection after this time, then
// again and again, and gives up on unacknowledged bytes.
constexpr Duration kKeepAliveIdle = std::chrono::seconds(2);
constexpr Duration kKeepAliveInterval = std::chrono::seconds(1);
void PrepareSocket(int fd, const TransportOptions& options);

// Between peers on one host there is no network rate to measure. A system default that paces sending (such as
// BBR) can double the time of large messages there. Reno, which every system allows, sends as much as the
// peer can take.
void SendUnpaced(int fd, const SocketAddress& peer);

// Sends a message of the handshake, through `tls` if it is not null. Such a message always fits into the send
// buffer of a new socket.
bool SendAll(int fd, TlsSession* tls, const Bytes& message);

wire::Nonce RandomNonce();

// Reads messages of the handshake, one after another, and nothing beyond them.
class HandshakeReader {
 public:
  enum class Progress { kMore, kDone, kLost };
  // `size` is at most kChallengeBytes.
  explicit HandshakeReader(size_t size) : size_(size) {}

  // Through `tls` if it is not null.
  Progress Read(int fd, TlsSession* tls);
  // Begins to read the next message.
  void Next(size_t size);
  // The bytes of the message that have arrived.
  ByteView bytes() const { return ByteView(bytes_).first(have_); }
  // Any byte of any message has arrived.
  bool begun() const { return begun_; }
  // Why the connection is lost, where more is known than its end.
  const Status& lost() const { return lost_; }

 private:
  std::array<std::byte, wire::kChallengeBytes> bytes_;
  size_t size_;
  size_t have_ = 0;
  bool begun_ = false;
  Status lost_;
};

// ---- silence

// The kernel's view of a connection.
struct LinkSample {
  Duration heard{0};  // since anything has come from the peer's kernel
  // Since this kernel last sent unacknowledged bytes; null: everything is acknowledged.
  std::optional<Duration> asked;
};

// Asks the kernel about a connected socket, which takes some microseconds at most. `asked` is null for
// sockets that are not tcp.
LinkSample SampleLink(int fd);

// Decides when the host of a connection's peer has fallen silent: the network between, or the host, is lost.
//
// The peer's kernel acknowledges data, and answers keepalive probes, also for a process that is stopped or
// busy. Its silence therefore says nothing about the pace of the peer.
class SilenceCheck {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(500);  // between two samples

  // Takes a sample. True if the peer's host is silent.
  //
  // An interruption of the network that is shorter than five seconds is none: the kernel has asked again
  // after that time. Its pauses double, though, so after kLongest the peer counts as silent in any case.
  bool Silent(const LinkSample& sample) {
    const bool unanswered =
        sample.asked && *sample.asked >= kAnswer && sample.heard - *sample.asked >= kInterruption;
    const bool still = checks_ > 0 && sample.asked && sample.heard >= kInterruption;
    const bool quiet = unanswered || still || (sample.asked && sample.heard >= kLongest);
    checks_ = quiet ? checks_ + 1 : 0;
    return checks_ >= kChecks;
  }

 private:
  static constexpr Duration kAnswer = std::chrono::milliseconds(300);
  static constexpr Duration kInterruption = std::chrono::milliseconds(5250);
  static constexpr Duration kLongest = std::chrono::milliseconds(7500);
  // After a pause of this machine the first sample is from before its network runs again.
  static constexpr int kChecks = 2;

  int checks_ = 0;  // in a row that have found it quiet
};

}  // namespace leat::net

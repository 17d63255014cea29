// Sockets: options of new ones, the handshake's messages of a fixed size over them, and silent peers.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "net/address.h"
#include "net/frames/handshake.h"
#include "net/transport.h"

namespace leat::net {

std::string SocketError(int error);
void SetSocketOption(int fd, int level, int option, int value);

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

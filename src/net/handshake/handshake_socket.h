// Internal to the handshake: options of new sockets, and messages of a fixed size over them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
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

}  // namespace leat::net

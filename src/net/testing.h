// Helpers for tests of transports.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "net/address.h"
#include "net/frames/handshake.h"
#include "net/same_host/same_host_peer.h"
#include "net/transport.h"

namespace leat::net::testing {

// Runs the loops alternately until `condition` holds. Returns false if it does not within `deadline`.
inline bool RunUntil(std::vector<Loop*> loops, const std::function<bool()>& condition,
                     Duration deadline = std::chrono::seconds(60)) {
  const Time end = MonotonicClock().Now() + deadline;
  while (!condition()) {
    if (MonotonicClock().Now() > end) return false;
    for (Loop* loop : loops) loop->RunOnce(std::chrono::milliseconds(loops.size() > 1 ? 0 : 1));
  }
  return true;
}
inline bool RunUntil(Loop& loop, const std::function<bool()>& condition,
                     Duration deadline = std::chrono::seconds(60)) {
  return RunUntil(std::vector<Loop*>{&loop}, condition, deadline);
}

// A connected socket.
// `from`: the last byte of the address of the connecting host, 127.0.0.x.
inline int ConnectTo(const std::string& address, uint8_t from = 1) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(ParseAddress(address)->port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

// A listening socket at which no transport accepts.
class BareListener {
 public:
  // `backlog`: one connection more than this can wait to be accepted.
  explicit BareListener(int backlog = 5) : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listener_.get(), backlog), 0);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size);
    address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  const std::string& address() const { return address_; }
  Descriptor Accept() { return Descriptor(accept(listener_.get(), nullptr, nullptr)); }

 private:
  Descriptor listener_;
  std::string address_;
};

inline Bytes RandomBytes(size_t size, uint64_t seed) {
  Rng rng(seed);
  Bytes bytes(size);
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = rng();
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, size - i));
  }
  return bytes;
}

// Does the connecting side's handshake on a connected socket. `pump` is called while the peer's answer has
// not arrived. Returns the verdict, or kUnavailable if the peer closes the connection.
inline Status RawHandshake(int fd, std::string_view token, const wire::Port& port,
                           const std::function<void()>& pump = {}) {
  const Time end = MonotonicClock().Now() + std::chrono::seconds(60);
  const auto read = [&](size_t size, Bytes* bytes) {
    for (bytes->clear(); bytes->size() < size && MonotonicClock().Now() < end;) {
      std::byte byte;
      const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
      if (got == 1) {
        bytes->push_back(byte);
      } else if (got == 0 || errno != EAGAIN) {
        break;
      } else if (pump) {
        pump();
      } else {
        pollfd wait{fd, POLLIN, 0};
        poll(&wait, 1, 100);
      }
    }
    return bytes->size() == size ? Status() : Status(Code::kUnavailable, "closed");
  };
  wire::HandshakeContext context{.port = port, .connects = {}, .accepts = {}};
  const Bytes hello = wire::EncodeHello(port, context.connects);
  (void)send(fd, hello.data(), hello.size(), MSG_NOSIGNAL);
  Bytes answer;
  LEAT_RETURN_IF_ERROR(read(wire::kChallengeBytes, &answer));
  std::copy_n(answer.begin() + 24, context.accepts.size(), context.accepts.begin());
  const Bytes proof = wire::EncodeProof(context, token);
  (void)send(fd, proof.data(), proof.size(), MSG_NOSIGNAL);
  LEAT_RETURN_IF_ERROR(read(wire::kVerdictBytes, &answer));
  return wire::DecodeVerdict(answer);
}

struct Message {
  uint8_t type = 0;
  Bytes header;
  Bytes payload;
  friend bool operator==(const Message&, const Message&) = default;
};

// Records all callbacks and counts those in an invalid order.
class Recorder : public Receiver {
 public:
  Places OnHeader(Connection& connection, uint8_t type, ByteView header, uint64_t payload_bytes) override {
    if (closed || in_message) ++violations;
    if (refuse_headers) return Status(Code::kDataLoss, "refused");
    in_message = true;
    segments = 0;
    now.type = type;
    now.header.assign(header.begin(), header.end());
    now.payload.resize(payload_bytes);
    spans = cut(now.payload);
    if (on_header) on_header(connection);
    return spans;
  }
  void OnSegment(Connection& connection, size_t i) override {
    if (closed || !in_message || i != segments) ++violations;
    ++segments;
    if (on_segment) on_segment(connection, i);
  }
  void OnMessage(Connection& connection) override {
    if (closed || !in_message || segments != spans.size()) ++violations;
    in_message = false;
    messages.push_back(std::move(now));
    now = {};
    if (on_message) on_message(connection);
  }
  void OnClosed(Connection& connection, const Status& status) override {
    if (closed) ++violations;
    closed = status;
    if (on_closed) on_closed(connection);
  }

  // Splits a payload into spans; one span by default.
  std::function<Spans(std::span<std::byte>)> cut = [](std::span<std::byte> payload) {
    return std::vector{payload};
  };
  bool refuse_headers = false;
  std::function<void(Connection&)> on_header, on_message, on_closed;
  std::function<void(Connection&, size_t)> on_segment;

  std::deque<Message> messages;
  std::optional<Status> closed;
  bool in_message = false;
  int violations = 0;
  Message now;
  Spans spans;
  size_t segments = 0;
};

}  // namespace leat::net::testing

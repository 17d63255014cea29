#include "observe/http/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace leat::observe {
namespace {

// The first byte of a TLS connection: a record of its handshake.
constexpr char kTlsHandshake = 0x16;

Status Lost(int error) {
  return {Code::kUnavailable, std::strerror(error)};
}
bool TryAgain(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

Status HttpChannel::Await(short events, Time deadline) const {
  while (true) {
    const Duration left = deadline - clock_.Now();
    if (left <= Duration::zero()) return {Code::kDeadlineExceeded, "the peer is too slow"};
    pollfd ready{.fd = socket_.get(), .events = events, .revents = 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    const int found = poll(&ready, 1, static_cast<int>(std::min<int64_t>(ms, 1 << 30)));
    if (found > 0) return {};
    if (found < 0 && errno != EINTR) return Lost(errno);
  }
}

Status HttpChannel::BeginTls(net::TlsIdentity& identity, Time deadline) {
  char first = 0;
  ssize_t got = -1;
  while (got < 0) {
    LEAT_RETURN_IF_ERROR(Await(POLLIN, deadline));
    got = recv(socket_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && !TryAgain(errno)) return Lost(errno);
  }
  if (got == 0) return Lost(ECONNRESET);
  if (first != kTlsHandshake) return {Code::kInvalidArgument, "this listener uses TLS (https)"};
  tls_ = identity.Begin(socket_.get(),
                        {.side = wire::Side::kAccepts,
                         .peer_roles = net::CertificateRoles::All(),
                         .certificate_required = false,
                         .peer_host = {}},
                        std::make_shared<net::TlsBuffers>());
  while (true) {
    LEAT_ASSIGN_OR_RETURN(const bool complete, tls_->Handshake());
    if (complete) return {};
    LEAT_RETURN_IF_ERROR(Await(POLLIN, deadline));
  }
}

Result<size_t> HttpChannel::Read(std::span<char> bytes, Time deadline) {
  while (true) {
    if (tls_ != nullptr) {
      const iovec piece{.iov_base = bytes.data(), .iov_len = bytes.size()};
      const Result<size_t> got = tls_->Read({&piece, 1});
      if (!got.ok() && tls_->closed_by_peer()) return size_t{0};
      if (!got.ok() || *got > 0) return got;
    } else {
      const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got >= 0) return static_cast<size_t>(got);
      if (!TryAgain(errno)) return Lost(errno);
    }
    LEAT_RETURN_IF_ERROR(Await(POLLIN, deadline));
  }
}

Status HttpChannel::Write(std::string_view bytes, Time deadline) {
  while (!bytes.empty()) {
    size_t sent = 0;
    if (tls_ != nullptr) {
      const iovec piece{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
      bool moved = false;
      LEAT_ASSIGN_OR_RETURN(sent, tls_->Write({&piece, 1}, &moved));
    } else {
      const ssize_t done = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (done < 0 && !TryAgain(errno)) return Lost(errno);
      sent = static_cast<size_t>(std::max<ssize_t>(done, 0));
    }
    bytes.remove_prefix(sent);
    if (sent == 0) LEAT_RETURN_IF_ERROR(Await(POLLOUT, deadline));
  }
  return {};
}

void HttpChannel::Shut() const {
  shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace leat::observe

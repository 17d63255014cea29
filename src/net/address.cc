#include "net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <mutex>
#include <utility>

#include "base/bytes.h"
#include "base/exit_status.h"
#include "base/threads/thread.h"

namespace leat::net {
namespace {

Result<std::vector<SocketAddress>> LookUp(const std::string& address, const HostPort& parts, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(parts.port);
  if (const int error = getaddrinfo(parts.host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return Status(Code::kUnavailable, "cannot resolve " + address + ": " + gai_strerror(error));
  }
  std::vector<SocketAddress> all;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    auto& one = all.emplace_back();
    std::memcpy(&one.storage, at->ai_addr, at->ai_addrlen);
    one.size = at->ai_addrlen;
  }
  freeaddrinfo(found);
  return all;
}

// Receives the result of a lookup thread. The loop may be destroyed before the lookup ends.
struct Mailbox {
  std::mutex mutex;
  Loop* loop = nullptr;  // guarded by mutex; null once no caller waits
  std::function<void(Result<std::vector<SocketAddress>>)> done;
};

}  // namespace

std::string HostName() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return "";
  return host.data();
}

Result<std::string> AdvertisedAddress(const std::string& advertise, const std::string& listening) {
  if (advertise.empty()) return listening;
  const bool has_port = advertise.find(':') != std::string::npos && advertise.back() != ']';
  const std::string port = listening.substr(listening.rfind(':') + 1);
  LEAT_ASSIGN_OR_RETURN(const HostPort at, ParseAddress(has_port ? advertise : advertise + ":" + port));
  const auto bad = [&](const std::string& why) {
    return Status(Code::kInvalidArgument, "cannot advertise " + advertise + ": " + why);
  };
  if (at.host == "0.0.0.0" || at.host == "::") return bad("others cannot connect to a wildcard");
  if (at.port == 0) return bad("others cannot connect to port 0");
  return at.ToString();
}

uint64_t NetworkId() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) != 0) network = {};
  ByteWriter id;
  id.PutString(boot);
  id.Put(static_cast<uint64_t>(network.st_dev));
  id.Put(static_cast<uint64_t>(network.st_ino));
  return std::max<uint64_t>(Checksum(id.view()), 1);
}

std::string LocalHostTowards(const std::string& address) {
  const auto found = Resolve(address);
  if (!found.ok()) return "";
  for (const SocketAddress& to : *found) {
    const Descriptor fd(socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    SocketAddress own;
    own.size = sizeof(own.storage);
    if (fd.ok() && connect(fd.get(), to.get(), to.size) == 0 &&
        getsockname(fd.get(), own.get(), &own.size) == 0)
      return std::string(HostOf(own.ToString()));
  }
  return "";
}

Result<HostPort> ParseAddress(std::string_view address) {
  const auto bad = [&](const char* why) {
    return Status(Code::kInvalidArgument, "address '" + std::string(address) + "' is not host:port: " + why);
  };
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return bad("no ':'");
  std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    in6_addr ignored;
    if (inet_pton(AF_INET6, std::string(host).c_str(), &ignored) != 1)
      return bad("no IPv6 address in brackets");
  } else if (host.empty() || host.find_first_of(":/[]%?# ") != std::string_view::npos) {
    return bad("no host");
  }
  HostPort at{.host = host == "localhost" ? "127.0.0.1" : std::string(host)};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), at.port);
  if (error != std::errc() || end != port.data() + port.size())
    return bad("the port is not a number up to 65535");
  return at;
}

bool IsIpAddress(std::string_view host) {
  const std::string text(host);
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(AF_INET, text.c_str(), &v4) == 1 || inet_pton(AF_INET6, text.c_str(), &v6) == 1;
}

std::string HostPort::ToString() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string SocketAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (family() == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&storage);
    inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
    return std::string(text) + ":" + std::to_string(ntohs(in->sin_port));
  }
  const auto* in = reinterpret_cast<const sockaddr_in6*>(&storage);
  inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof(text));
  return "[" + std::string(text) + "]:" + std::to_string(ntohs(in->sin6_port));
}

Result<std::vector<SocketAddress>> Resolve(const std::string& address) {
  LEAT_ASSIGN_OR_RETURN(const HostPort parts, ParseAddress(address));
  return LookUp(address, parts, 0);
}

Result<ListeningSocket> ListenOn(const std::string& address) {
  const std::string where = "cannot listen on " + address;
  const auto resolved = Resolve(address);
  if (!resolved.ok()) return resolved.status().With(where);
  SocketAddress at = resolved->front();
  Descriptor fd(socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (!fd.ok() || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(fd.get(), at.get(), at.size) != 0 || listen(fd.get(), SOMAXCONN) != 0 ||
      getsockname(fd.get(), at.get(), &at.size) != 0)
    return Status(CodeOfErrno(errno), where + ": " + std::strerror(errno));
  return ListeningSocket{std::move(fd), at};
}

std::shared_ptr<void> ResolveAsync(Loop& loop, const std::string& address,
                                   std::function<void(Result<std::vector<SocketAddress>>)> done) {
  auto mailbox = std::make_shared<Mailbox>();
  mailbox->loop = &loop;
  mailbox->done = std::move(done);
  const auto deliver = [](const std::shared_ptr<Mailbox>& to, Result<std::vector<SocketAddress>> result) {
    std::lock_guard lock(to->mutex);
    if (to->loop == nullptr) return;
    to->loop->Post([to, result = std::move(result)]() mutable {
      // Only the loop's thread releases its interest, so it cannot change between this check and the call.
      decltype(to->done) call;
      {
        std::lock_guard again(to->mutex);
        if (std::exchange(to->loop, nullptr) == nullptr) return;
        call.swap(to->done);
      }
      call(std::move(result));
    });
  };
  auto parts = ParseAddress(address);
  if (!parts.ok()) {
    deliver(mailbox, parts.status());
  } else if (auto numeric = LookUp(address, *parts, AI_NUMERICHOST); numeric.ok()) {
    deliver(mailbox, std::move(numeric));
  } else {
    // The system's resolver has no timeout, so nothing joins this thread.
    StartThread([mailbox, deliver, address, parts = *parts] {
      deliver(mailbox, LookUp(address, parts, 0));
    }).detach();
  }
  return std::shared_ptr<void>(nullptr, [mailbox](void*) {
    decltype(mailbox->done) dropped;  // destroyed after the lock is released
    std::lock_guard lock(mailbox->mutex);
    mailbox->loop = nullptr;
    dropped.swap(mailbox->done);
  });
}

}  // namespace leat::net

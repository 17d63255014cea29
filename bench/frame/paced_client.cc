#include "paced_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <stdexcept>

#include "net/address.h"
#include "session.h"

namespace leat::bench {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int ConnectTo(const std::string& address) {
  const auto resolved = net::Resolve(address);
  if (!resolved.ok()) Fail(resolved.status().ToString());
  const auto& at = resolved->front();
  const int fd = socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (connect(fd, at.get(), at.size) != 0) {
    close(fd);
    Fail("cannot connect to " + address);
  }
  return fd;
}

// The size of the whole reply at the beginning of `bytes`; 0: it is not complete.
size_t ReplySize(const std::string& bytes) {
  const size_t head = bytes.find("\r\n\r\n");
  if (head == std::string::npos) return 0;
  const size_t at = bytes.find("Content-Length: ");
  if (at == std::string::npos || at > head) Fail("a reply without its length");
  const size_t size = head + 4 + std::stoul(bytes.substr(at + 16, 20));
  return bytes.size() < size ? 0 : size;
}

struct Lane {
  int fd = -1;
  std::deque<double> due;  // when to send each request; the first is under way, the others wait for it
  std::string reply;
};

}  // namespace

double PacedResult::Quantile(double q) const {
  if (latencies.empty()) return 0;
  return latencies[std::min(latencies.size() - 1,
                            static_cast<size_t>(q * static_cast<double>(latencies.size())))];
}

PacedResult SendPaced(const std::string& address, const std::string& request, int connections, double rate,
                      double seconds) {
  std::vector<Lane> lanes(static_cast<size_t>(connections));
  std::vector<pollfd> ready;
  struct Closer {
    std::vector<Lane>& lanes;
    ~Closer() {
      for (const Lane& lane : lanes) {
        if (lane.fd >= 0) close(lane.fd);
      }
    }
  } closer{lanes};
  for (Lane& lane : lanes) {
    lane.fd = ConnectTo(address);
    ready.push_back({.fd = lane.fd, .events = POLLIN, .revents = 0});
  }
  const auto send_one = [&](const Lane& lane) {
    if (send(lane.fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
      Fail("cannot send a request to " + address);
  };
  PacedResult result;
  const double begin = Now(), end = begin + seconds;
  uint64_t sent = 0, waiting = 0;
  std::vector<char> bytes(64 << 10);
  while (true) {
    const double now = Now();
    for (; now < end; ++sent) {
      const double due = begin + static_cast<double>(sent) / rate;
      if (due > now) break;
      Lane& lane = lanes[sent % lanes.size()];
      lane.due.push_back(due);
      ++waiting;
      if (lane.due.size() == 1) send_one(lane);
    }
    if (now >= end && waiting == 0) break;
    if (now > end + 10) Fail(std::to_string(waiting) + " requests have no reply");
    if (poll(ready.data(), ready.size(), 0) <= 0) continue;
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (ready[i].revents == 0) continue;
      Lane& lane = lanes[i];
      const ssize_t got = recv(lane.fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0 || lane.due.empty()) Fail("the connection to " + address + " has ended");
      lane.reply.append(bytes.data(), static_cast<size_t>(got));
      const size_t size = ReplySize(lane.reply);
      if (size == 0) continue;
      if (!lane.reply.starts_with("HTTP/1.1 200 ")) ++result.failed;
      lane.reply.erase(0, size);
      result.latencies.push_back(Now() - lane.due.front());
      lane.due.pop_front();
      --waiting;
      if (!lane.due.empty()) send_one(lane);
    }
  }
  std::ranges::sort(result.latencies);
  return result;
}

HttpConnection::HttpConnection(const std::string& address) : socket_(ConnectTo(address)) {
  const timeval limit{.tv_sec = 10, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

HttpConnection::~HttpConnection() {
  close(socket_);
}

std::string HttpConnection::Ask(const std::string& request) {
  if (send(socket_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    Fail("cannot send a request");
  std::string reply;
  char bytes[4096];
  while (ReplySize(reply) == 0) {
    const ssize_t got = recv(socket_, bytes, sizeof(bytes), 0);
    if (got <= 0) Fail("no reply");
    reply.append(bytes, static_cast<size_t>(got));
  }
  if (!reply.starts_with("HTTP/1.1 200 ")) Fail("the reply is " + reply);
  return reply.substr(reply.find("\r\n\r\n") + 4);
}

std::string PostRequest(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace leat::bench

// An HTTP server for tests.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace leat::net::testing {

// A socket that listens on a free port of loopback, and accepts nothing by itself.
inline int ListenOnLoopback(uint16_t* port) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener, 5), 0);
  EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  *port = ntohs(address.sin_port);
  return listener;
}

// Answers on a port of loopback, one connection and one request at a time.
class HttpStub {
 public:
  struct Reply {
    int status = 200;
    std::string body;
  };
  // The replies by paths; 404 for others.
  explicit HttpStub(std::map<std::string, Reply> replies) : replies_(std::move(replies)) {
    socket_ = ListenOnLoopback(&port_);
    thread_ = std::thread([this] { Serve(); });
  }
  ~HttpStub() {
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    close(socket_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int requests() const { return requests_; }
  // The last request, with its headers and its body.
  std::string request() const {
    std::lock_guard lock(mutex_);
    return request_;
  }

 private:
  // Bytes of the request that begins with `text`, as far as they are known.
  static size_t SizeOf(const std::string& text) {
    const size_t end = text.find("\r\n\r\n");
    if (end == text.npos) return SIZE_MAX;
    constexpr std::string_view kLength = "\r\nContent-Length: ";
    const size_t at = text.find(kLength);
    return end + 4 + (at < end ? std::strtoull(text.c_str() + at + kLength.size(), nullptr, 10) : 0);
  }
  void Serve() {
    for (;;) {
      const int peer = accept(socket_, nullptr, nullptr);
      if (peer < 0) return;
      std::string text;
      char buffer[4096];
      while (text.size() < SizeOf(text)) {
        const ssize_t got = recv(peer, buffer, sizeof(buffer), 0);
        if (got <= 0) break;
        text.append(buffer, static_cast<size_t>(got));
      }
      const size_t begin = text.find(' ') + 1;
      const auto reply = replies_.find(text.substr(begin, text.find(' ', begin) - begin));
      const Reply found = reply == replies_.end() ? Reply{404, R"({"error_code": 40403})"} : reply->second;
      {
        std::lock_guard lock(mutex_);
        request_ = text;
      }
      ++requests_;
      const std::string out =
          "HTTP/1.1 " + std::to_string(found.status) +
          " x\r\nConnection: close\r\nContent-Length: " + std::to_string(found.body.size()) + "\r\n\r\n" +
          (text.starts_with("HEAD") ? "" : found.body);
      (void)!send(peer, out.data(), out.size(), MSG_NOSIGNAL);
      close(peer);
    }
  }

  const std::map<std::string, Reply> replies_;
  int socket_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> requests_ = 0;
  mutable std::mutex mutex_;
  std::string request_;
  std::thread thread_;
};

}  // namespace leat::net::testing

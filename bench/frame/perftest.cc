#include "perftest.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "baseline.h"

namespace leat::bench {
namespace {

const std::string kProgram = "/usr/bin/ucx_perftest";
const std::vector<std::string> kSettings = {"UCX_TLS=tcp", "UCX_NET_DEVICES=lo"};
constexpr double kStartSeconds = 5;

double PerftestNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A port that was free a moment ago.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  if (bind(fd, reinterpret_cast<sockaddr*>(&at), size) == 0)
    getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  close(fd);
  return ntohs(at.sin_port);
}

}  // namespace

std::string UcxPerftestVersion() {
  const std::string said = Baseline("ucx_info", {"/usr/bin/ucx_info", "-v"}).Finish(60);
  const size_t at = said.find_first_of("0123456789");  // "# Version 1.13.1"
  if (at == std::string::npos) throw std::runtime_error("ucx_info printed no version: " + said);
  return "ucx_perftest " + said.substr(at, said.find_first_not_of("0123456789.", at) - at);
}

double UcxTcpBandwidth(uint64_t message_bytes, double seconds) {
  // The number of messages that 4 GB/s move in this time.
  const auto count =
      std::max<uint64_t>(10, static_cast<uint64_t>(seconds * 4e9 / static_cast<double>(message_bytes)));
  const std::string port = std::to_string(FreePort());
  std::vector<std::string> words = {kProgram,
                                    "-f",
                                    "-v",
                                    "-t",
                                    "ucp_am_bw",
                                    "-s",
                                    std::to_string(message_bytes),
                                    "-n",
                                    std::to_string(count),
                                    "-w",
                                    "5",
                                    "-p",
                                    port};
  Baseline server("ucx_perftest", words, kSettings);
  words.insert(words.begin() + 1, "127.0.0.1");
  // The server does not report when it listens, and a client that comes too early fails at once: retry.
  std::string reason;
  for (const double end = PerftestNow() + kStartSeconds; PerftestNow() < end; poll(nullptr, 0, 20)) {
    try {
      const std::string said = Baseline("ucx_perftest", words, kSettings).Finish(20 + 10 * seconds);
      // Two lines: names, then iterations, three latencies, bandwidth on average and overall in units of
      // 2^20.
      double overall = 0;
      const size_t line = said.find('\n');
      if (line != std::string::npos &&
          std::sscanf(said.c_str() + line, " %*f,%*f,%*f,%*f,%*f,%lf", &overall) == 1) {
        return overall * (1 << 20);
      }
      reason = "ucx_perftest printed no bandwidth";
    } catch (const std::runtime_error& e) {
      reason = e.what();
    }
  }
  throw std::runtime_error(reason + "; install the Debian package ucx-utils");
}

}  // namespace leat::bench

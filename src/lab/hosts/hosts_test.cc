#include "lab/hosts/hosts.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/testing.h"

namespace leat::hosts {
namespace {

constexpr uint16_t kPort = 7000;
constexpr int kNoHosts = 77;

sockaddr_in At(const std::string& address) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(kPort);
  inet_pton(AF_INET, address.c_str(), &at.sin_addr);
  return at;
}

// Starts a process on a host.
pid_t StartOn(const Hosts& hosts, uint32_t host, const std::function<int()>& what) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int one : hosts.Namespaces(host)) {
    if (setns(one, 0) != 0) _exit(99);
  }
  _exit(what());
}

int StatusOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int Echo(const std::string& address) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  const sockaddr_in at = At(address);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return 1;
  for (;;) {
    char byte = 0;
    sockaddr_in from{};
    socklen_t size = sizeof from;
    if (recvfrom(fd, &byte, 1, 0, reinterpret_cast<sockaddr*>(&from), &size) == 1)
      sendto(fd, &byte, 1, 0, reinterpret_cast<sockaddr*>(&from), size);
  }
}

// 0 if an answer comes to one of so many calls, which are a tenth of a second apart.
int Calls(const std::string& address, int calls) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  const sockaddr_in at = At(address);
  while (calls-- > 0) {
    const char byte = 1;
    sendto(fd, &byte, 1, 0, reinterpret_cast<const sockaddr*>(&at), sizeof at);
    pollfd answer{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&answer, 1, 100) == 1) return 0;
  }
  return 1;
}

#define REQUIRE(condition)                                       \
  if (!(condition)) {                                            \
    std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
    return 1;                                                    \
  }

// In a child, because it leaves the namespaces of the test.
int UseHosts(const std::string& folder) {
  if (const Status entered = EnterNamespaces(); !entered.ok()) {
    std::fprintf(stderr, "%s\n", entered.message().c_str());
    return kNoHosts;
  }
  const std::string disk = folder + "/disk", file = disk + "/file";
  std::filesystem::create_directory(disk);
  REQUIRE(MountDisk(disk, 1 << 20).ok());
  std::ofstream(file) << "of the disk";
  for (int again = 0; again < 2; ++again) {
    Hosts hosts;
    REQUIRE(hosts.Make(3).ok());
    const pid_t echo = StartOn(hosts, 0, [&] { return Echo(hosts.Address(0)); });
    const auto reaches = [&](uint32_t host, int calls) {
      return StatusOf(StartOn(hosts, host, [&] { return Calls(hosts.Address(0), calls); })) == 0;
    };
    REQUIRE(reaches(1, 600));
    REQUIRE(Calls(hosts.Address(0), 600) == 0);
    REQUIRE(hosts.Cut(1).ok());
    REQUIRE(!reaches(1, 5));
    REQUIRE(reaches(2, 600));
    REQUIRE(hosts.Mend(1).ok());
    REQUIRE(reaches(1, 600));
    const auto sees = [&](uint32_t host) {
      return StatusOf(StartOn(hosts, host, [&] { return access(file.c_str(), F_OK) == 0 ? 0 : 1; })) == 0;
    };
    REQUIRE(sees(1));
    REQUIRE(hosts.Hide(1, disk).ok());
    REQUIRE(!sees(1));
    REQUIRE(sees(2));
    kill(echo, SIGKILL);
    StatusOf(echo);
  }
  const std::string much(2 << 20, 'x');
  std::ofstream full(disk + "/much", std::ios::binary);
  full << much << std::flush;
  REQUIRE(!full);
  UnmountDisk(disk);
  REQUIRE(access(file.c_str(), F_OK) != 0);
  return 0;
}

TEST(Hosts, ShareNothingButTheNetwork) {
  const TempDir folder;
  const pid_t child = fork();
  if (child == 0) _exit(UseHosts(folder.path()));
  const int status = StatusOf(child);
  if (status == kNoHosts) GTEST_SKIP() << "emulating hosts needs ip (package iproute2) and user namespaces";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace leat::hosts

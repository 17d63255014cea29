#include "perftest.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace leat::bench {
namespace {

constexpr int kNotFound = 127;  // exit status of a program that is not there

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A program whose standard output is read; killed when this is destroyed.
class Child {
 public:
  explicit Child(std::vector<std::string> words) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    out_ = ends[0];
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      setenv("UCX_TLS", "tcp", 1);
      setenv("UCX_NET_DEVICES", "lo", 1);
      dup2(ends[1], STDOUT_FILENO);
      dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
      std::vector<char*> argv;
      for (auto& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      _exit(kNotFound);
    }
    close(ends[1]);
  }
  ~Child() {
    if (out_ >= 0) close(out_);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // All that it says until it ends, or until so many seconds have passed.
  std::string Listen(double seconds) {
    const double end = Now() + seconds;
    std::string heard;
    for (;;) {
      pollfd fd{out_, POLLIN, 0};
      const double left = end - Now();
      if (left <= 0 || poll(&fd, 1, 1 + static_cast<int>(left * 1e3)) <= 0) return heard;
      char bytes[4096];
      const ssize_t n = read(out_, bytes, sizeof(bytes));
      if (n <= 0) return heard;
      heard.append(bytes, static_cast<size_t>(n));
    }
  }

  // Its exit status, once it has ended.
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WEXITSTATUS(status);
  }

 private:
  int out_ = -1;
  pid_t pid_ = -1;
};

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

double UcxTcpBandwidth(uint64_t message_bytes, double seconds) {
  // As many messages as 4 GB/s move in that time.
  const auto count =
      std::max<uint64_t>(10, static_cast<uint64_t>(seconds * 4e9 / static_cast<double>(message_bytes)));
  const std::string port = std::to_string(FreePort());
  std::vector<std::string> words = {
      "ucx_perftest",        "-f", "-v", "-t", "ucp_am_bw", "-s", std::to_string(message_bytes), "-n",
      std::to_string(count), "-w", "5",  "-p", port};
  if (Child({words[0], "-h"}).Wait() == kNotFound) {
    throw std::runtime_error("ucx_perftest does not start; Debian has it in the package ucx-utils");
  }
  const Child server(words);
  words.insert(words.begin() + 1, "127.0.0.1");
  // The server does not say when it listens: a client that comes too early ends at once.
  for (const double end = Now() + 5; Now() < end;) {
    const std::string said = Child(words).Listen(20 + 10 * seconds);
    // Two lines: names, then iterations, three latencies, bandwidth on average and overall in units of 2^20.
    double overall = 0;
    const size_t line = said.find('\n');
    if (line != std::string::npos &&
        std::sscanf(said.c_str() + line, " %*f,%*f,%*f,%*f,%*f,%lf", &overall) == 1) {
      return overall * (1 << 20);
    }
    poll(nullptr, 0, 20);
  }
  throw std::runtime_error("ucx_perftest measured nothing within 5 seconds");
}

}  // namespace leat::bench

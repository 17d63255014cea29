#include "lab/soak/seed_pool.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <vector>

#include "base/text.h"

namespace leat::soak {
namespace {

constexpr int kPoll_ms = 100;

// Calls `part` for what is left until all bytes are through; false if it fails, or the other end has closed.
bool Transfer(void* data, size_t size, const std::function<ssize_t(char*, size_t)>& part) {
  for (char* at = static_cast<char*>(data); size > 0;) {
    const ssize_t n = part(at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool SendAll(int fd, void* data, size_t size) {
  return Transfer(data, size, [fd](char* at, size_t n) { return send(fd, at, n, MSG_NOSIGNAL); });
}

bool ReadAll(int fd, void* data, size_t size) {
  return Transfer(data, size, [fd](char* at, size_t n) { return read(fd, at, n); });
}

// The child: seeds come in, results go out, each with its length before it.
[[noreturn]] void Serve(int fd, const std::function<std::string(uint64_t)>& run) {
  uint64_t seed = 0;
  while (ReadAll(fd, &seed, sizeof seed)) {
    std::string result;
    try {
      result = run(seed);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      _exit(1);
    }
    uint64_t size = result.size();
    if (!SendAll(fd, &size, sizeof size) || !SendAll(fd, result.data(), size)) break;
  }
  _exit(0);
}

std::string SignalName(int status) {
  if (!WIFSIGNALED(status)) return "status " + std::to_string(WEXITSTATUS(status));
  const char* const name = sigabbrev_np(WTERMSIG(status));
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(WTERMSIG(status));
}

class Pool {
 public:
  explicit Pool(const SeedPoolOptions& options)
      : options_(options), next_(options.first), children_(std::max(1u, options.processes)) {}
  ~Pool() {
    for (const Child& child : children_) {
      if (child.pid <= 0) continue;
      kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
      close(child.fd);
      close(child.errors);
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void Run() {
    while (done_ < options_.count) {
      for (Child& child : children_) {
        if (!child.busy && given_ < options_.count) Give(child);
      }
      Wait();
      if (options_.on_wait) options_.on_wait();
    }
  }

 private:
  struct Child {
    pid_t pid = 0;
    int fd = -1;
    int errors = -1;  // a file in memory that has its stderr
    bool busy = false;
    uint64_t seed = 0;
    Time until{0};
  };

  void Start(Child& child) {
    std::array<int, 2> ends{};
    child.errors = memfd_create("leat-seed", MFD_CLOEXEC);
    if (child.errors < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::runtime_error(std::string("cannot start a process: ") + std::strerror(errno));
    std::fflush(nullptr);
    const pid_t parent = getpid();
    child.pid = fork();
    if (child.pid < 0)
      throw std::runtime_error(std::string("cannot start a process: ") + std::strerror(errno));
    if (child.pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      dup2(child.errors, STDERR_FILENO);
      Serve(ends[1], options_.run);
    }
    close(ends[1]);
    child.fd = ends[0];
  }

  void Give(Child& child) {
    if (child.pid <= 0) Start(child);
    child.seed = next_++;
    ++given_;
    child.busy = true;
    child.until = clock_.Now() + options_.deadline;
    SendAll(child.fd, &child.seed,
            sizeof child.seed);  // the next Wait notices a child that has died
  }

  void Wait() {
    std::vector<pollfd> all;
    for (const Child& child : children_) {
      if (child.busy) all.push_back({.fd = child.fd, .events = POLLIN, .revents = 0});
    }
    poll(all.data(), all.size(), kPoll_ms);
    for (const pollfd& one : all) {
      const auto child = std::ranges::find(children_, one.fd, &Child::fd);
      if (one.revents != 0) {
        TakeResult(*child);
      } else if (clock_.Now() > child->until) {
        kill(child->pid, SIGKILL);
        const auto minutes = std::chrono::duration<double, std::ratio<60>>(options_.deadline).count();
        Bury(*child, Formatted("still running after %.3g minutes", minutes));
      }
    }
  }

  void TakeResult(Child& child) {
    uint64_t size = 0;
    std::string result;
    bool whole = ReadAll(child.fd, &size, sizeof size);
    if (whole) {
      result.resize(size);
      whole = ReadAll(child.fd, result.data(), size);
    }
    if (!whole) return Bury(child, "");
    child.busy = false;
    ++done_;
    options_.on_result(child.seed, result);
  }

  // The child is dead, or dies.
  void Bury(Child& child, std::string why) {
    int status = 0;
    waitpid(child.pid, &status, 0);
    if (why.empty()) {
      const std::string said = LastLine(child.errors);
      why = "ended with " + SignalName(status) + (said.empty() ? "" : ": " + said);
    }
    close(child.fd);
    close(child.errors);
    const uint64_t seed = child.seed;
    child = {};
    ++done_;
    options_.on_death(seed, why);
  }

  static std::string LastLine(int fd) {
    std::array<char, 4096> tail{};
    const off_t size = lseek(fd, 0, SEEK_END);
    const auto from = std::max<off_t>(0, size - static_cast<off_t>(tail.size()));
    const ssize_t n = pread(fd, tail.data(), tail.size(), from);
    std::string text(tail.data(), n > 0 ? static_cast<size_t>(n) : 0);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }

  const SeedPoolOptions& options_;
  MonotonicClock clock_;
  uint64_t next_;
  uint64_t given_ = 0, done_ = 0;
  std::vector<Child> children_;
};

}  // namespace

void RunSeeds(const SeedPoolOptions& options) {
  Pool(options).Run();
}

}  // namespace leat::soak

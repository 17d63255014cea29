#include "team.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "baseline.h"

namespace leat::bench {
namespace {

double TeamNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Team::Team(std::string stem, uint32_t members) : stem_(std::move(stem)), members_(members) {
  signal(SIGPIPE, SIG_IGN);
  for (uint32_t i = 0; i < members_; ++i) {
    if (mkfifo(in(i).c_str(), 0600) != 0 || mkfifo(out(i).c_str(), 0600) != 0) lost_ = true;
  }
}

Team::~Team() {
  for (const int fd : to_) close(fd);
  for (const int fd : from_) close(fd);
  for (const pid_t pid : processes_) {
    kill(pid, SIGTERM);  // lets a launcher end its own children
    for (const double end = TeamNow() + 3; waitpid(pid, nullptr, WNOHANG) == 0;) {
      if (TeamNow() > end) kill(pid, SIGKILL);
      poll(nullptr, 0, 10);
    }
  }
}

std::string Team::in(uint32_t member) const {
  return stem_ + "." + std::to_string(member) + ".in";
}
std::string Team::out(uint32_t member) const {
  return stem_ + "." + std::to_string(member) + ".out";
}

void Team::Fork(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid != 0) {
    processes_.push_back(pid);
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  _exit(0);
}

void Team::Run(const std::vector<std::string>& words) {
  Fork([&] {
    const int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    dup2(open(log().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    ExecBaseline(words, ThreadSettings(1));
    dprintf(STDERR_FILENO, "%s cannot be started\n", words[0].c_str());
    _exit(127);
  });
}

// Opening for reading does not block. Opening for writing is retried until the member has opened its end.
bool Team::Open(double patience) {
  const double end = TeamNow() + patience;
  for (uint32_t i = 0; i < members_; ++i) {
    from_.push_back(open(out(i).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    int fd = -1;
    while ((fd = open(in(i).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
      for (const pid_t pid : processes_) {
        if (waitpid(pid, nullptr, WNOHANG) != 0) return false;
      }
      if (TeamNow() > end) return false;
      poll(nullptr, 0, 10);
    }
    to_.push_back(fd);
  }
  return true;
}

double Team::Command(const std::string& kind, uint64_t bytes, int calls, double patience) {
  if (!lost_ && to_.empty()) lost_ = !Open(120);
  const std::string line = kind + " " + std::to_string(bytes) + " " + std::to_string(calls) + "\n";
  double first = 0;
  for (uint32_t i = 0; i < members_ && !lost_; ++i) {
    lost_ = write(to_[i], line.data(), line.size()) != static_cast<ssize_t>(line.size());
  }
  const double end = TeamNow() + patience;
  for (uint32_t i = 0; i < members_ && !lost_; ++i) {
    std::string answer;
    while (!lost_ && (answer.empty() || answer.back() != '\n')) {
      pollfd fd{from_[i], POLLIN, 0};
      char bytes_read[100];
      const double left = end - TeamNow();
      const ssize_t n = left > 0 && poll(&fd, 1, static_cast<int>(left * 1e3) + 1) > 0
                            ? read(from_[i], bytes_read, sizeof(bytes_read))
                            : 0;
      lost_ = n <= 0;
      if (!lost_) answer.append(bytes_read, static_cast<size_t>(n));
    }
    if (i == 0) first = std::strtod(answer.c_str(), nullptr);
  }
  return lost_ ? 0 : first;
}

std::string Team::Why() const {
  std::ifstream in(log());
  const std::string said{std::istreambuf_iterator<char>(in), {}};
  constexpr size_t kMax = 1000;
  if (said.empty()) return "a process has ended or does not answer, and wrote nothing to stderr";
  return "a process has ended or does not answer: " + said.substr(said.size() - std::min(said.size(), kMax));
}

}  // namespace leat::bench

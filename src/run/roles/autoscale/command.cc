#include "run/roles/autoscale/scale_hook.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/text.h"

extern char** environ;

namespace leat::roles {
namespace {

constexpr size_t kMostOutput = 4096;  // bytes that are kept
constexpr size_t kLongestLine = 200;
// Interval of polling for the end, on kernels without pidfd_open.
constexpr Duration kLookInterval = std::chrono::milliseconds(20);

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> environment;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view entry(*e);
    if (!changes.contains(std::string(entry.substr(0, entry.find('='))))) environment.emplace_back(entry);
  }
  for (const auto& [key, value] : changes) {
    if (!value.empty()) environment.push_back(key + "=" + value);
  }
  return environment;
}

// In a process group of its own, with the signals of a new process, and its output in `output`.
int Spawn(const Command& command, int output, pid_t* pid) {
  const std::vector<std::string> environment = Environment(command.environment);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD}) sigaddset(&signals, signal);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(pid, command.arguments[0].c_str(), &files, &attributes,
                                 Pointers(command.arguments).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

// Reads what is there, but not for ever. False: nothing more will come.
bool ReadSome(int fd, std::string* text) {
  std::array<char, 4096> buffer;
  for (int reads = 0; reads < 64; ++reads) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    text->append(buffer.data(), static_cast<size_t>(n));
    if (text->size() > kMostOutput) text->erase(0, text->size() - kMostOutput);
  }
  return true;
}

std::string LastLine(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  return std::string(text.substr(text.rfind('\n') + 1, kLongestLine));
}

void Kill(pid_t pid) {
  kill(-pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

CommandRunner::CommandRunner() : abort_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  signal(SIGCHLD, SIG_DFL);  // if it is ignored, there is no status to wait for
}

void CommandRunner::Abort() {
  const uint64_t once = 1;
  if (write(abort_.get(), &once, sizeof once) < 0) return;  // the counter is full, so it was aborted before
}

Status CommandRunner::Run(const Command& command) {
  const std::string name = "'" + command.arguments.at(0) + "'";
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    return {Code::kResourceExhausted, name + " cannot be started: " + std::strerror(errno)};
  net::Descriptor output(ends[0]);
  fcntl(output.get(), F_SETFL, O_NONBLOCK);
  pid_t pid = 0;
  const int error = Spawn(command, ends[1], &pid);
  close(ends[1]);
  if (error != 0) return {Code::kFailedPrecondition, name + " cannot be started: " + std::strerror(error)};
  const Status ended = Await(pid, std::move(output), command);
  return ended.ok() ? ended : Status(ended.code(), name + " " + ended.message());
}

Status CommandRunner::Await(pid_t pid, net::Descriptor output, const Command& command) {
  const MonotonicClock clock;
  const Time until = clock.Now() + command.deadline;
  const net::Descriptor end(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  std::string text;
  int status = 0;
  bool writes = true;
  pid_t ended = 0;
  while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
    const Duration left = until - clock.Now();
    if (left <= Duration{0}) {
      Kill(pid);
      const std::string line = LastLine(text);
      return {Code::kDeadlineExceeded, Formatted("took longer than %.3g s", Seconds(command.deadline)) +
                                           (line.empty() ? "" : ": " + line)};
    }
    std::array<pollfd, 3> waits{{{.fd = abort_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = end.get(), .events = POLLIN, .revents = 0},
                                 {.fd = writes ? output.get() : -1, .events = POLLIN, .revents = 0}}};
    const auto wait =
        std::chrono::ceil<std::chrono::milliseconds>(end.ok() ? left : std::min(left, kLookInterval));
    poll(waits.data(), waits.size(), static_cast<int>(std::min<int64_t>(wait.count(), 3'600'000)));
    if (waits[0].revents != 0) {
      Kill(pid);
      return {Code::kAborted, "was ended, as the job is"};
    }
    if (waits[2].revents != 0) writes = ReadSome(output.get(), &text);
  }
  if (ended < 0) return {Code::kInternal, std::string("cannot be waited for: ") + std::strerror(errno)};
  ReadSome(output.get(), &text);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const std::string how = WIFEXITED(status) ? "ended with status " + std::to_string(WEXITSTATUS(status))
                                            : "was ended by signal " + std::to_string(WTERMSIG(status));
  const std::string line = LastLine(text);
  return {Code::kUnavailable, how + (line.empty() ? "" : ": " + line)};
}

}  // namespace leat::roles

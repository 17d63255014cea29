#include "run/launcher/processes.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/exit_status.h"

extern char** environ;

namespace leat::launcher {
namespace {

namespace fs = std::filesystem;

// Interval of polling for ended children, on kernels without pidfd_open.
constexpr Duration kLookInterval = std::chrono::milliseconds(20);

double SecondsOf(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const auto& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Processes::Processes() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  signal(SIGCHLD, SIG_DFL);
}

Processes::~Processes() {
  Signal(SIGKILL);
  for (const auto& [pid, process] : running_) waitpid(pid, nullptr, 0);
  if (wake_ >= 0) close(wake_);
}

Result<pid_t> Processes::Start(const ProcessSpec& spec) {
  // All allocations happen before the fork, because this process has threads.
  std::vector<std::string> arguments{"leat"};
  arguments.insert(arguments.end(), spec.arguments.begin(), spec.arguments.end());
  std::vector<std::string> environment;
  for (const auto& [key, value] : spec.environment) environment.push_back(key + "=" + value);
  if (!spec.own_environment) environment = EnvironmentWith(spec.environment);
  const auto argv = Pointers(arguments);
  const auto envp = Pointers(environment);
  const char* const program = spec.program.empty() ? "/proc/self/exe" : spec.program.c_str();

  const int log = open(spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return Status(CodeOfErrno(errno), "cannot write " + spec.log + ": " + std::strerror(errno));
  const off_t log_begin = lseek(log, 0, SEEK_END);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    const int why = errno;
    close(log);
    errno = why;
    return Status(Code::kResourceExhausted, "cannot start " + spec.name + ": " + std::strerror(errno));
  }
  if (pid == 0) {
    const auto fail = [log](std::string_view why) {
      // On a full disk nobody can read why.
      [[maybe_unused]] const ssize_t ignored = write(log, why.data(), why.size());
      _exit(kNotStarted);
    };
    setpgid(0, 0);
    if (spec.user && (setgroups(0, nullptr) != 0 || setresgid(*spec.user, *spec.user, *spec.user) != 0 ||
                      setresuid(*spec.user, *spec.user, *spec.user) != 0)) {
      fail("leat: cannot become the user of the job\n");
    }
    if (!spec.directory.empty() && chdir(spec.directory.c_str()) != 0)
      fail(
          "leat: the user of the job cannot enter its directory; all folders above it need the permission "
          "x\n");
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // which another user clears
    if (getppid() != parent) _exit(kNotStarted);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    const int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int one : spec.namespaces) {
      if (setns(one, 0) != 0) _exit(kNotStarted);
    }
    execve(program, argv.data(), envp.data());
    fail("leat: the program cannot be started\n");
  }
  close(log);
  running_[pid] = {spec.name, spec.log, log_begin > 0 ? static_cast<uint64_t>(log_begin) : 0};
  return pid;
}

// The process goes on writing to the file, at its new end. Lines of the same moment may be lost.
void Processes::Process::LimitLog() {
  std::error_code error;
  const uint64_t size = fs::file_size(log, error);
  if (error || size <= kMostLog) return;
  fs::copy_file(log, log + ".1", fs::copy_options::overwrite_existing, error);
  fs::resize_file(log, 0, error);
  log_begin = 0;
}

std::vector<ProcessEnd> Processes::Reap() {
  std::vector<ProcessEnd> ended;
  for (auto at = running_.begin(); at != running_.end();) {
    int status = 0;
    rusage usage{};
    const pid_t pid = wait4(at->first, &status, WNOHANG, &usage);
    if (pid != at->first) {
      at->second.LimitLog();
      ++at;
      continue;
    }
    ProcessEnd end{.pid = pid, .name = at->second.name};
    end.last_error = LastErrorLine(at->second.log, at->second.log_begin);
    end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    end.cpu_seconds = SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime);
    end.peak_rss_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    cpu_seconds_ += end.cpu_seconds;
    ended.push_back(std::move(end));
    at = running_.erase(at);
  }
  return ended;
}

void Processes::Await(Duration wait) const {
  std::vector<pollfd> ends{{.fd = wake_, .events = POLLIN, .revents = 0}};
  for (const auto& [pid, process] : running_) {
    const int end = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (end < 0) wait = std::min(wait, kLookInterval);
    ends.push_back({.fd = end, .events = POLLIN, .revents = 0});
  }
  if (wake_ < 0) wait = std::min(wait, kLookInterval);
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  poll(ends.data(), ends.size(), static_cast<int>(std::clamp<int64_t>(ms, 0, INT_MAX)));
  for (size_t i = 1; i < ends.size(); ++i) {
    if (ends[i].fd >= 0) close(ends[i].fd);
  }
  uint64_t ignored;
  if (read(wake_, &ignored, sizeof ignored) < 0) return;
}

void Processes::Wake() {
  const uint64_t once = 1;
  if (write(wake_, &once, sizeof once) < 0) return;  // the counter is full, so Await returns anyway
}

void Processes::Signal(pid_t pid, int signal) {
  if (running_.contains(pid)) kill(pid, signal);  // not reaped yet, so the number is still its own
}

void Processes::Signal(int signal) {
  for (const auto& [pid, process] : running_) kill(pid, signal);
}

std::vector<std::string> EnvironmentWith(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> environment;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view entry(*e);
    if (!changes.contains(std::string(entry.substr(0, entry.find('='))))) environment.emplace_back(entry);
  }
  for (const auto& [key, value] : changes) environment.push_back(key + "=" + value);
  return environment;
}

int Spawn(const std::vector<std::string>& arguments, const std::vector<std::string>& environment, int out,
          int error, pid_t* pid) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  if (error != STDERR_FILENO)
    posix_spawn_file_actions_adddup2(&files, error, STDERR_FILENO);  // it may be closed
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
  const int failed = posix_spawnp(pid, arguments[0].c_str(), &files, &attributes, Pointers(arguments).data(),
                                  Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return failed;
}

void KillGroup(pid_t pid) {
  kill(-pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string LastErrorLine(const std::string& log, uint64_t from) {
  constexpr uint64_t kEnd = 1 << 20;
  std::error_code error;
  const uint64_t size = fs::file_size(log, error);
  if (error) return "";
  std::ifstream in(log);
  in.seekg(static_cast<std::streamoff>(std::max(from, size - std::min(size, kEnd))));
  std::string line, words;
  constexpr std::string_view kPrefix = "leat: ";
  while (std::getline(in, line)) {
    if (line.starts_with(kPrefix)) words = line.substr(kPrefix.size());
  }
  return words;
}

}  // namespace leat::launcher

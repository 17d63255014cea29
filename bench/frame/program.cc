#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace leat::bench {
namespace fs = std::filesystem;

std::string Program() {
  if (const char* given = std::getenv("LEAT_PROGRAM"); given != nullptr && *given != '\0') return given;
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin/leat";
}

void UseCores(int cores) {
  cpu_set_t allowed, some;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  CPU_ZERO(&some);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&some) < cores; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &some);
  }
  sched_setaffinity(0, sizeof(some), &some);
}

Scratch::Scratch(const std::string& name) {
  std::string path = (fs::temp_directory_path() / ("leat-" + name + "-XXXXXX")).string();
  if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot create a directory like " + path);
  path_ = path;
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Running::Running(const std::vector<std::string>& arguments, std::string output,
                 const std::vector<std::string>& under)
    : output_(std::move(output)) {
  const std::string program = Program();
  std::vector<char*> argv;
  for (const auto& argument : under) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(const_cast<char*>(program.c_str()));
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("cannot start " + program);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);  // Ctrl-C reaches the benchmark only, which passes it on
    const int out = open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
}

Running::~Running() {
  if (alive()) {
    kill(pid_, SIGKILL);
    Wait();
  }
}

bool Running::alive() {
  if (status_ >= 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_ < 0;
}

void Running::Interrupt() {
  kill(pid_, SIGINT);
}

void Running::Signal(int signal) const {
  if (status_ >= 0) return;
  kill(pid_, signal);
  for (const auto& [role, pid] : Roles()) kill(pid, signal);
}

int Running::Wait() {
  if (status_ < 0) waitpid(pid_, &status_, 0);
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

bool Running::WaitFor(double seconds) {
  if (!alive()) return false;
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (handle < 0) throw std::runtime_error("pidfd_open failed");
  pollfd ended{.fd = handle, .events = POLLIN, .revents = 0};
  poll(&ended, 1, static_cast<int>(seconds * 1000));
  close(handle);
  return alive();
}

std::vector<std::pair<std::string, pid_t>> Running::Roles() const {
  std::vector<std::pair<std::string, pid_t>> roles;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "stat");
    const std::string stat{std::istreambuf_iterator<char>(in), {}};
    const size_t behind_name = stat.rfind(')');
    if (behind_name == std::string::npos) continue;
    std::istringstream fields(stat.substr(behind_name + 1));
    std::string state;
    pid_t parent = 0;
    fields >> state >> parent;
    if (parent != pid_) continue;
    std::ifstream words(entry.path() / "cmdline");
    std::string program, role;
    std::getline(words, program, '\0');
    std::getline(words, role, '\0');
    if (!role.empty()) roles.emplace_back(role, std::stoi(name));
  }
  std::ranges::sort(roles);
  return roles;
}

std::string Running::Output() const {
  std::ifstream in(output_);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string AddressIn(const Running& role, const std::string& before) {
  const std::string output = role.Output();
  const size_t at = output.find(before);
  if (at == std::string::npos || output.find('\n', at) == std::string::npos) return "";
  const size_t begin = at + before.size();
  return output.substr(begin, output.find_first_of(" \n", begin) - begin);
}

void WaitFor(const std::string& what, Running& role, const std::function<bool()>& condition, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (!role.alive() || std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error(what + ": " + role.Output());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace leat::bench

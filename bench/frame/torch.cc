#include "torch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

namespace leat::bench {
namespace {

constexpr double kStartSeconds = 120;  // it loads a few hundred megabytes of libraries
constexpr double kPatienceSeconds = 60;

}  // namespace

Torch::Torch() {
  signal(SIGPIPE, SIG_IGN);
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return;
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    return;
  }
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    // Where there is no PyTorch, the traceback is nobody's business.
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    execl("/usr/bin/python3", "python3", LEAT_TORCH_SCRIPT, static_cast<char*>(nullptr));
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  version_ = ReadLine(kStartSeconds);
}

Torch::~Torch() {
  close(to_);
  close(from_);
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

double Torch::Step(const std::string& name, double seconds) {
  if (version_.empty()) return 0;
  const std::string line = name + " " + std::to_string(seconds) + "\n";
  if (write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return 0;
  return std::strtod(ReadLine(seconds + kPatienceSeconds).c_str(), nullptr);
}

std::string Torch::ReadLine(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    if (const size_t newline = read_.find('\n'); newline != std::string::npos) {
      const std::string line = read_.substr(0, newline);
      read_.erase(0, newline + 1);
      return line;
    }
    const auto left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    pollfd wait{from_, POLLIN, 0};
    if (left <= 0 || poll(&wait, 1, static_cast<int>(left * 1000) + 1) <= 0) return "";
    char bytes[4096];
    const ssize_t count = read(from_, bytes, sizeof bytes);
    if (count <= 0) return "";
    read_.append(bytes, static_cast<size_t>(count));
  }
}

}  // namespace leat::bench

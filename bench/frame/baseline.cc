#include "baseline.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <utility>

extern char** environ;

namespace leat::bench {
namespace {

constexpr std::array<std::string_view, 26> kSteering = {
    "OPENBLAS_", "GOTO_",   "BLIS_",  "MKL_",  "OMP_",    "GOMP_",  "KMP_",   "DNNL_",  "ONEDNN_",
    "XLA_",      "JAX_",    "TF_",    "TORCH", "PYTORCH", "ATEN_",  "NUMBA_", "PYTHON", "VIRTUAL_ENV",
    "CONDA_",    "LIBXSMM", "VECLIB", "ACL_",  "NPROC",   "EIGEN_", "CUDA_",  "UCX_"};

constexpr double kEndSeconds = 5;  // time to exit after the end of input or output

double BaselineNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The last non-empty line of a file, which is the error in a Python traceback.
std::string LastLine(int file) {
  const off_t size = lseek(file, 0, SEEK_END);
  std::string end(static_cast<size_t>(std::clamp<off_t>(size, 0, 4096)), '\0');
  if (pread(file, end.data(), end.size(), size - static_cast<off_t>(end.size())) < 0) return "";
  end.erase(end.find_last_not_of(" \n") + 1);
  return end.substr(end.rfind('\n') + 1);
}

std::string Ending(int status) {
  return WIFSIGNALED(status) ? "ended by signal " + std::to_string(WTERMSIG(status))
                             : "exit status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

std::vector<std::string> CleanEnvironment(const std::vector<std::string>& settings) {
  std::vector<std::string> clean;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool steers =
        std::ranges::any_of(kSteering, [&](std::string_view prefix) { return text.starts_with(prefix); });
    const bool replaced = std::ranges::any_of(settings, [&](const std::string& setting) {
      return text.starts_with(setting.substr(0, setting.find('=') + 1));
    });
    if (!steers && !replaced) clean.emplace_back(text);
  }
  clean.insert(clean.end(), settings.begin(), settings.end());
  return clean;
}

std::vector<std::string> ThreadSettings(int threads) {
  const std::string n = std::to_string(threads);
  // XLA takes NPROC for the number of processors.
  return {"OMP_NUM_THREADS=" + n, "OPENBLAS_NUM_THREADS=" + n, "MKL_NUM_THREADS=" + n, "NPROC=" + n};
}

void ExecBaseline(const std::vector<std::string>& words, const std::vector<std::string>& settings) {
  const std::vector<std::string> environment = CleanEnvironment(settings);
  execve(words[0].c_str(), Pointers(words).data(), Pointers(environment).data());
}

std::string EnvironmentPython(const std::string& name) {
  const std::string directory = std::string(LEAT_BASELINES) + "/" + name;
  const std::vector<std::string> words = {"/usr/bin/python3", LEAT_SOURCE "/bench/frame/environment.py",
                                          LEAT_SOURCE "/deploy/pip-" + name + ".txt", directory};
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(STDERR_FILENO, STDOUT_FILENO);  // stdout is for the report
    ExecBaseline(words, {});
    _exit(127);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
    throw std::runtime_error("cannot create the Python environment " + directory);
  }
  return directory + "/bin/python3";
}

Baseline::Baseline(std::string name, const std::vector<std::string>& words,
                   const std::vector<std::string>& settings)
    : name_(std::move(name)) {
  signal(SIGPIPE, SIG_IGN);
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) throw std::runtime_error(name_ + ": cannot create a pipe");
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    throw std::runtime_error(name_ + ": cannot create a pipe");
  }
  errors_ = memfd_create("errors", MFD_CLOEXEC);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(errors_, STDERR_FILENO);
    ExecBaseline(words, settings);
    dprintf(STDERR_FILENO, "%s cannot be started\n", words[0].c_str());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
}

Baseline::~Baseline() {
  // At the end of its input it should end by itself, together with its children.
  if (to_ >= 0) close(to_);
  if (pid_ > 0) Wait();
  close(from_);
  close(errors_);
}

void Baseline::Fail(const std::string& what) {
  const std::string error = LastLine(errors_);
  throw std::runtime_error(name_ + ": " + (error.empty() ? what : what + ": " + error));
}

bool Baseline::ReadMore(double end, double seconds) {
  const double left = end - BaselineNow();
  pollfd wait{from_, POLLIN, 0};
  if (left <= 0 || poll(&wait, 1, static_cast<int>(left * 1000) + 1) <= 0) {
    Fail("no answer within " + std::to_string(static_cast<int>(seconds)) + " s");
  }
  char bytes[4096];
  const ssize_t count = read(from_, bytes, sizeof bytes);
  if (count > 0) read_.append(bytes, static_cast<size_t>(count));
  return count > 0;
}

int Baseline::Wait() {
  int status = 0;
  for (const double end = BaselineNow() + kEndSeconds; waitpid(pid_, &status, WNOHANG) == 0;
       poll(nullptr, 0, 5)) {
    if (BaselineNow() > end) kill(pid_, SIGKILL);
  }
  pid_ = -1;
  return status;
}

std::string Baseline::ReadLine(double seconds) {
  const double end = BaselineNow() + seconds;
  size_t newline = 0;
  while ((newline = read_.find('\n')) == std::string::npos) {
    if (!ReadMore(end, seconds)) Fail(Ending(Wait()));
  }
  std::string line = read_.substr(0, newline);
  read_.erase(0, newline + 1);
  return line;
}

std::string Baseline::Finish(double seconds) {
  close(std::exchange(to_, -1));
  for (const double end = BaselineNow() + seconds; ReadMore(end, seconds);) {
  }
  if (const int status = Wait(); status != 0) Fail(Ending(status));
  return std::exchange(read_, "");
}

std::string Baseline::Ask(const std::string& line, double seconds) {
  const std::string text = line + "\n";
  // If it has ended, reading reports why.
  [[maybe_unused]] const ssize_t written = write(to_, text.data(), text.size());
  return ReadLine(seconds);
}

}  // namespace leat::bench

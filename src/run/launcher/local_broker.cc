#include "run/launcher/local_broker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/exit_status.h"
#include "run/launcher/processes.h"
#include "run/launcher/signals.h"

namespace leat::launcher {
namespace {

namespace fs = std::filesystem;

constexpr timespec kLook = {.tv_sec = 0, .tv_nsec = 20'000'000};  // between two looks at the tool
constexpr int kInterrupted = 128 + SIGINT;

// The exit status of the tool; kInterrupted if a signal came first.
int Wait(pid_t tool, bool interruptible) {
  const sigset_t watched = EndSignals();
  for (int status = 0;;) {
    const pid_t ended = waitpid(tool, &status, interruptible ? WNOHANG : 0);
    if (ended == tool) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended < 0 && errno != EINTR) return 1;
    if (!interruptible || sigtimedwait(&watched, nullptr, &kLook) < 0) continue;
    KillGroup(tool);  // not the broker, which has a session of its own
    return kInterrupted;
  }
}

// Runs the tool, whose stdout goes to the file descriptor. Returns its exit status.
int Run(const std::vector<std::string>& arguments, int out, bool interruptible) {
  pid_t tool = 0;
  const int failed = Spawn(arguments, EnvironmentWith({}), out, STDERR_FILENO, &tool);
  return failed != 0 ? 127 : Wait(tool, interruptible);
}

std::string ReadLine(int file) {
  std::array<char, 256> buffer{};
  const ssize_t size = pread(file, buffer.data(), buffer.size(), 0);
  const std::string text(buffer.data(), size > 0 ? static_cast<size_t>(size) : 0);
  return text.substr(0, text.find('\n'));
}

}  // namespace

Result<std::string> FindBrokerTool() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path tool = "tools/kafka";
  for (fs::path folder = program.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (access((folder / tool).c_str(), X_OK) == 0) return (folder / tool).string();
  }
  if (access(tool.c_str(), X_OK) == 0) return tool.string();
  return Status(Code::kNotFound, "there is no tools/kafka, which starts a broker, in a folder above " +
                                     program.string() + "; name the brokers of a running one");
}

Result<std::unique_ptr<LocalBroker>> LocalBroker::Start(const std::string& tool,
                                                        const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  const std::string said = directory + "/address";
  const int out = open(said.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (out < 0) return Status(CodeOfErrno(errno), said + ": " + std::strerror(errno));
  std::unique_ptr<LocalBroker> broker(new LocalBroker(tool, directory));  // stops what a failed start leaves
  const int status = Run({tool, "start", "--directory", directory, "--listen", "127.0.0.1:0"}, out, true);
  broker->address_ = ReadLine(out);
  close(out);
  if (status == kInterrupted) return Status(Code::kAborted, "interrupted");
  if (status != 0 || broker->address_.empty()) {
    return Status(Code::kUnavailable,
                  tool + " could not start a broker (exit status " + std::to_string(status) + ")");
  }
  return broker;
}

LocalBroker::~LocalBroker() {
  const int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (out < 0) return;
  Run({tool_, "stop", "--directory", directory_}, out, false);
  close(out);
}

}  // namespace leat::launcher

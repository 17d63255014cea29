#include "run/roles/autoscale/scaling.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "run/launcher/processes.h"

namespace leat::roles {
namespace {

constexpr Duration kFirstHookPause = std::chrono::seconds(1), kLongestHookPause = std::chrono::minutes(1);

std::string Replace(std::string text, const std::string& word, const std::string& by) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
  return text;
}

constexpr size_t kMostOutput = 4096;  // bytes that are kept
constexpr size_t kLongestLine = 200;
// Interval of polling for the end, on kernels without pidfd_open.
constexpr Duration kLookInterval = std::chrono::milliseconds(20);

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

}  // namespace

using Phase = protocol::CoordinatorStatus::Phase;

protocol::Load LoadOf(const protocol::CoordinatorStatus& status, Duration oldest) {
  protocol::Load load{.ready = status.phase == Phase::kRunning,
                      .trained = status.events,
                      .lag = status.lag,
                      .oldest = oldest};
  for (const uint64_t end : status.ends) load.arrived += end;
  for (const protocol::Member& member : status.view.members) {
    if (member.state != protocol::Member::State::kActive) continue;
    load.workers += member.role == protocol::Role::kWorker ? 1 : 0;
    load.servers += member.role == protocol::Role::kServer ? 1 : 0;
  }
  load.training = load.ready && load.workers > 0;
  return load;
}

Scaling::Scaling(net::Loop& loop, const job::AutoscaleSpec& spec, const std::string& job,
                 metrics::Registry& registry, control::ScalerServer* scaler, bool workers_hold_state)
    : spec_(spec),
      scaler_(scaler),
      workers_hold_state_(workers_hold_state),
      workers_(registry.gauge("leat_wanted_workers", "Workers that the job wants; 0: not known yet.")),
      servers_(registry.gauge("leat_wanted_ps", "Parameter servers that the job wants.")) {
  if (!spec_.command.empty()) hook_.emplace(loop, spec_, job);
}

void Scaling::OnStatus(Time now, const protocol::CoordinatorStatus& status, Duration oldest) {
  Choose(now, status, oldest);
  protocol::CoordinatorStatus::Wanted wanted = status.wanted;
  Fill(&wanted);
  workers_.Set(wanted.now());
  servers_.Set(wanted.servers);
  const bool ends = status.phase == Phase::kStopping || status.phase == Phase::kEnded;
  if (hook_ && wanted.now() > 0 && !ends) hook_->Want(now, {wanted.now(), wanted.servers});
  if (scaler_ == nullptr) return;
  const bool open = status.predictions && status.predictions->behind > 0;
  needs_workers_ = activity_.OnLoad(now, LoadOf(status, oldest), open) || workers_hold_state_;
  scaler_->Set({.workers = wanted.now(), .active = needs_workers_ && status.phase != Phase::kEnded});
}

void Scaling::Choose(Time now, const protocol::CoordinatorStatus& status, Duration oldest) {
  const protocol::WorkerRange range = status.wanted.workers;
  if (range.fixed()) {
    autoscaler_.reset();
  } else if (!autoscaler_) {
    autoscaler_.emplace(protocol::AutoscalerConfig{
        .least = range.least, .most = range.most, .lag = spec_.lag, .cool_down = spec_.cool_down});
  } else if (range != range_) {
    autoscaler_->SetRange(range.least, range.most);
  }
  range_ = range;
  if (!autoscaler_) return;
  const uint32_t before = autoscaler_->decision().workers;
  const protocol::ScaleDecision& decision = autoscaler_->OnLoad(now, LoadOf(status, oldest));
  if (decision.workers != before) spdlog::info("autoscaler: {}", decision.reason);
}

void Scaling::Fill(protocol::CoordinatorStatus::Wanted* wanted) const {
  if (autoscaler_ && !wanted->workers.fixed()) {
    wanted->chosen = std::min(autoscaler_->decision().workers, wanted->workers.most);
    wanted->reason = autoscaler_->decision().reason;
  }
  if (hook_) wanted->hook_failure = hook_->failure();
}

Command ScaleHook::CommandFor(const job::AutoscaleSpec& spec, const std::string& job,
                              const Numbers& numbers) {
  const std::string workers = std::to_string(numbers.workers), servers = std::to_string(numbers.servers);
  Command command{
      .environment = {{"LEAT_JOB", job}, {"LEAT_WORKERS", workers}, {"LEAT_PS", servers}, {"LEAT_TOKEN", ""}},
      .deadline = spec.timeout};
  for (const std::string& argument : spec.command)
    command.arguments.push_back(Replace(Replace(argument, "{workers}", workers), "{ps}", servers));
  return command;
}

void ScaleHook::Want(Time now, const Numbers& numbers) {
  asked_ = now;
  if (running_ || told_ == numbers || now < retry_at_) return;
  running_ = true;
  thread_.Post([this, numbers, command = CommandFor(spec_, job_, numbers), here = here_] {
    loop_.Post([this, numbers, status = runner_.Run(command), here] {
      if (*here) OnEnd(numbers, status);
    });
  });
}

void ScaleHook::OnEnd(const Numbers& numbers, const Status& status) {
  running_ = false;
  failure_ = status.message();
  if (status.ok()) {
    told_ = numbers;
    pause_ = Duration{0};
    return;
  }
  told_.reset();
  pause_ = std::clamp(2 * pause_, kFirstHookPause, kLongestHookPause);
  retry_at_ = asked_ + pause_;
  spdlog::warn("autoscale command for {} workers and {} ps: {}; the next attempt is in {} s", numbers.workers,
               numbers.servers, failure_, std::chrono::duration_cast<std::chrono::seconds>(pause_).count());
}

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
  std::vector<std::string> environment = launcher::EnvironmentWith(command.environment);
  // An empty value removes a variable.
  for (const auto& [key, value] : command.environment) {
    if (value.empty()) std::erase(environment, key + "=");
  }
  const int error = launcher::Spawn(command.arguments, environment, ends[1], ends[1], &pid);
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
      launcher::KillGroup(pid);
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
      launcher::KillGroup(pid);
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

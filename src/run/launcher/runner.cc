#include "run/launcher/runner.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <utility>

#include "base/exit_status.h"
#include "job/model.h"
#include "net/address.h"
#include "net/rpc/client.h"
#include "run/launcher/admin.h"
#include "run/launcher/output/job_text.h"
#include "run/launcher/processes.h"
#include "run/launcher/signals.h"
#include "run/launcher/start/start_job.h"
#include "run/launcher/wanted_roles.h"
#include "show/report/display.h"

namespace leat::launcher {
namespace {

namespace fs = std::filesystem;

constexpr Duration kStatusInterval = std::chrono::milliseconds(250);
// A coordinator that does not answer may have died, which is noticed after the call.
constexpr Duration kStatusDeadline = std::chrono::seconds(1);
constexpr Duration kEndDeadline = std::chrono::seconds(10);
// Time for roles to end by themselves when the job is over, before they are told. A role that has not joined
// does not know that it is over.
constexpr Duration kEndGrace = std::chrono::seconds(1);

std::string NameOf(const std::string& role, uint32_t index) {
  return role + "-" + std::to_string(index);
}

class Runner {
 public:
  Runner(const RunnerOptions& options, PreparedJob prepared)
      : options_(options),
        job_(std::move(prepared.job)),
        made_directory_(prepared.made_directory),
        token_(options.token.empty() ? RandomToken() : options.token),
        display_(options.json ? stderr : stdout),
        signals_([this](int) {
          ++interrupts_;
          processes_.Wake();
        }),
        starter_(options.life_fd, [this] {
          int none = 0;
          interrupts_.compare_exchange_strong(none, 1);
          processes_.Wake();
        }) {
    if (options_.ready_fd >= 0) fcntl(options_.ready_fd, F_SETFD, FD_CLOEXEC);
  }

  int Run();

 private:
  struct Child {
    std::string role;  // "standby" is a worker that stands by
    uint32_t index = 0;
    bool became_worker = false;  // a standby has become a worker
    bool leaves = false;         // it was told to
    std::string work() const { return became_worker ? "worker" : role; }
  };

  // For all roles. It replaces the settings of the user's environment, whose listener is the coordinator's.
  std::map<std::string, std::string> Environment() const {
    const Security& security = options_.security;
    return {{"LEAT_TOKEN", token_},
            {"LEAT_METRICS", ""},
            {"LEAT_SECURITY", security.folder},
            {"LEAT_SITE", options_.place.site},
            {"LEAT_ZONE", options_.place.zone},
            {"LEAT_CLASS", options_.place.host_class},
            {"LEAT_TRUSTED_NETWORK", security.trusted_network ? "1" : ""}};
  }
  std::string LogOf(const std::string& name) const { return job_.directory + "/logs/" + name + ".log"; }
  Status StartJob();
  // `again`: it has died. The roles go on meanwhile, and find it at the same address.
  Status StartCoordinator(bool again = false);
  Status OnNotReady(pid_t pid, bool again, bool over, const std::string& log);
  void StartRole(const std::string& role, uint32_t index);
  void StartLater(const std::string& role, uint32_t index, Duration pause) {
    later_.push_back({clock_.Now() + pause, role, index});
  }
  void StartDue();
  void ReapAndReplace();
  bool ReportLost(pid_t pid);
  void ShowMetrics(const std::string& address);
  void ShowDashboard(const std::string& address);
  bool PollStatus();  // false: the coordinator does not answer
  void ScaleRoles();
  void StartMembers();
  void StartStandbys();
  uint32_t FreeStandby() const;
  void Resize(const WantedRoles::Order& order, const std::set<pid_t>& members);
  void EndStuck();
  void HandleInterrupts();
  void RequestStop();
  void WaitForRest();
  void Fail(const ProcessEnd& end);
  void FailWith(const Status& why);
  int Conclude();

  const RunnerOptions& options_;
  job::Job job_;
  const bool made_directory_;  // the job's directory is new, and is removed if the job cannot be started
  std::string token_;
  report::Display display_;
  std::atomic<int> interrupts_{0};
  Processes processes_;
  SignalWatch signals_;
  LifeWatch starter_;
  MonotonicClock clock_;
  std::map<pid_t, Child> children_;
  Restarts restarts_;
  struct Later {
    Time due;
    std::string role;
    uint32_t index = 0;
  };
  std::vector<Later> later_;             // roles to start again
  std::optional<Time> coordinator_due_;  // the coordinator's next start
  std::map<std::string, uint64_t> peak_rss_;
  std::string address_;
  std::string metrics_;    // where the coordinator serves them, with the real port; empty: not known
  std::string dashboard_;  // where the page of the job is; empty: not known
  std::unique_ptr<control::ControlClient> client_;
  std::optional<report::JobStatus> status_;  // the last one
  WantedRoles wanted_;
  uint64_t last_events_ = 0;
  bool coordinator_ended_ = false;
  ProcessEnd coordinator_;  // valid after it has ended
  bool stopping_ = false;
  std::string failure_;
  int exit_status_ = ExitStatus::kFailed;  // if the job fails
};

Status Runner::StartCoordinator(bool again) {
  std::array<int, 2> ready{};
  if (pipe2(ready.data(), 0) != 0) {
    exit_status_ = ExitStatus::kMayHeal;
    return Status(Code::kResourceExhausted, std::string("cannot create a pipe: ") + std::strerror(errno));
  }
  fcntl(ready[0], F_SETFD, FD_CLOEXEC);
  ProcessSpec spec{.name = "coordinator", .log = LogOf("coordinator")};
  spec.arguments = CoordinatorArguments(options_, job_,
                                        {.ready_fd = ready[1],
                                         .again = again,
                                         .address = address_,
                                         .metrics = metrics_,
                                         .dashboard = dashboard_,
                                         .events = last_events_});
  spec.environment = Environment();
  auto pid = processes_.Start(spec);
  close(ready[1]);
  if (!pid.ok()) {
    close(ready[0]);
    exit_status_ = ExitStatusOf(pid.status().code());
    return pid.status();
  }
  children_[*pid] = {.role = "coordinator"};

  const FoundAddress found = AwaitAddress({.fd = ready[0],
                                           .pid = *pid,
                                           .again = again,
                                           .resumes = again || !options_.source.resume.empty(),
                                           .interrupts = interrupts_,
                                           .processes = processes_,
                                           .display = display_});
  close(ready[0]);
  if (found.address.empty()) return OnNotReady(*pid, again, found.over, spec.log);
  address_ = found.address;
  client_ = control::ControlClient::Make(address_, token_, options_.security.tls);
  return Status();
}

// The coordinator has ended, or is to. A restarted coordinator is reaped like any other process.
Status Runner::OnNotReady(pid_t pid, bool again, bool over, const std::string& log) {
  const bool interrupted = interrupts_ > (again ? 1 : 0);
  if (again) {
    if (!over) processes_.Signal(pid, SIGKILL);
    return Status();
  }
  if (!over) processes_.Signal(SIGKILL);
  WaitForRest();
  if (interrupted) return Status(Code::kAborted, "interrupted");
  exit_status_ = ExitStatusAfter(coordinator_.exit_code);
  if (!coordinator_.last_error.empty()) return Status(Code::kInvalidArgument, coordinator_.last_error);
  return Status(Code::kInternal, "the coordinator did not start" +
                                     std::string(over ? "" : ", and has done nothing for two minutes") +
                                     "; see " + log);
}

// A host that lacks something for now, such as processes or space for the log, is waited for; other errors
// end the job.
void Runner::StartRole(const std::string& role, uint32_t index) {
  if (!failure_.empty()) return;
  const std::string name = NameOf(role, index);
  ProcessSpec spec{.name = name, .log = LogOf(name)};
  spec.arguments = {role, "--coordinator", address_};
  if (role == "standby") spec.arguments = {"worker", "--standby", "--coordinator", address_};
  if (!options_.metrics.empty())
    spec.arguments.insert(spec.arguments.end(),
                          {"--metrics", std::string(net::HostOf(options_.metrics)) + ":0"});
  spec.environment = Environment();
  spec.environment["OMP_NUM_THREADS"] = "1";
  auto pid = processes_.Start(spec);
  if (pid.ok()) {
    children_[*pid] = {.role = role, .index = index};
  } else if (ExitStatusOf(pid.status().code()) == ExitStatus::kMayHeal) {
    display_.Say(pid.status().message() + "; trying again");
    StartLater(role, index, restarts_.PauseBefore(name, false));
  } else {
    FailWith(pid.status());
  }
}

// False if the process is no member, as of the last status.
bool Runner::ReportLost(pid_t pid) {
  if (!status_ || client_ == nullptr) return false;
  const std::string host = net::HostName();
  for (const auto& member : status_->members) {
    if (member.pid != pid || member.host != host) continue;
    protocol::AdminRequest lost{.kind = protocol::AdminRequest::Kind::kNodeLost,
                                .node = NodeId(member.name.node)};
    // If the call fails, missing heartbeats have the same effect later.
    (void)client_->Call(lost, std::chrono::seconds(1));
    return true;
  }
  return false;
}

void Runner::ReapAndReplace() {
  for (const auto& end : processes_.Reap()) {
    const Child child = children_[end.pid];
    children_.erase(end.pid);
    auto& peak = peak_rss_[child.role];
    peak = std::max(peak, end.peak_rss_bytes);
    const bool crashed = end.exit_code != ExitStatus::kMayHeal;
    if (child.role == "coordinator") {
      const bool asked = stopping_ && end.exit_code == ExitStatus::kInterrupted;
      if (!address_.empty() && !coordinator_ended_ && !asked && failure_.empty() &&
          restarts_.MayRestart(end, true)) {
        display_.Say("the coordinator " + HowEnded(end) + "; starting it again, the job goes on");
        coordinator_due_ = clock_.Now() + restarts_.PauseBefore(end.name, crashed);
        continue;
      }
      coordinator_ended_ = true;
      coordinator_ = end;
      continue;
    }
    // A role exits with 0 at the end of the job, or when a signal asked it to leave. While the job stops, its
    // servers are still needed for the final checkpoint.
    if (coordinator_ended_ || !failure_.empty() || end.exit_code == ExitStatus::kDone) continue;
    PollStatus();
    const bool was_member = ReportLost(end.pid);
    if (child.leaves || (stopping_ && child.role != "ps")) continue;
    if (!restarts_.MayRestart(end, false)) {
      Fail(end);
      continue;
    }
    display_.Say(end.name + " " + HowEnded(end) + "; starting a replacement");
    // The place of a worker that was a member is taken by one that stands by, so that the new process stands
    // by in turn. If there was none, the place is still free, and the new process takes it.
    const bool stands_by = child.role == "worker" && was_member && job_.standby > 0;
    const std::string role = stands_by ? "standby" : child.role;
    StartLater(role, role == child.role ? child.index : FreeStandby(),
               restarts_.PauseBefore(end.name, crashed));
  }
}

void Runner::StartDue() {
  if (coordinator_due_ && clock_.Now() >= *coordinator_due_) {
    coordinator_due_.reset();
    if (auto status = StartCoordinator(true); status.ok()) {
      if (stopping_) RequestStop();
    } else if (ExitStatusOf(status.code()) == ExitStatus::kMayHeal) {
      display_.Say(status.message() + "; trying again");
      coordinator_due_ = clock_.Now() + restarts_.PauseBefore("coordinator", false);
    } else {
      FailWith(status);
    }
  }
  // Roles that are started without a coordinator would only end again.
  if (coordinator_due_ || !failure_.empty() || coordinator_ended_) return;
  for (const Later& start : std::exchange(later_, {})) {
    if (start.due > clock_.Now()) {
      later_.push_back(start);
      continue;
    }
    StartRole(start.role, start.index);
  }
}

void Runner::FailWith(const Status& why) {
  failure_ = why.message();
  exit_status_ = ExitStatusOf(why.code());
}

void Runner::ShowMetrics(const std::string& address) {
  // The coordinator may listen on a wildcard; the port is the same.
  metrics_ = std::string(net::HostOf(options_.metrics)) + address.substr(net::HostOf(address).size());
  const std::string url = (options_.security.tls != nullptr ? "https://" : "http://") + address;
  display_.Say("metrics of the coordinator: " + url + "/metrics, of all roles: " + url +
               "/targets; leat view-token shows the token that they need");
}

void Runner::ShowDashboard(const std::string& address) {
  // The coordinator may listen on all addresses of the host; the port is the same.
  dashboard_ = std::string(net::HostOf(options_.dashboard)) + address.substr(net::HostOf(address).size());
  display_.Say("dashboard: " + options_.dashboard_link(address, token_));
}

bool Runner::PollStatus() {
  auto status = AskStatus(*client_, kStatusDeadline);
  if (!status.ok()) return false;
  status_ = std::move(*status);
  if (metrics_.empty() && !status_->metrics.empty()) ShowMetrics(status_->metrics);
  if (dashboard_.empty() && !status_->dashboard.empty()) ShowDashboard(status_->dashboard);
  if (status_->events != last_events_) {
    restarts_.OnProgress([this](const std::string& name) {
      return std::ranges::any_of(later_,
                                 [&](const Later& start) { return NameOf(start.role, start.index) == name; });
    });
  }
  last_events_ = status_->events;
  EndStuck();
  return true;
}

// Starts and drains workers and servers, until the job has what it wants as of the last status.
void Runner::ScaleRoles() {
  if (stopping_ || coordinator_ended_ || !failure_.empty()) return;
  if (!status_) return;
  const std::string host = net::HostName();
  std::set<pid_t> members;
  for (const auto& member : status_->members) {
    if (member.host != host) continue;
    const auto child = children_.find(static_cast<pid_t>(member.pid));
    if (child == children_.end()) continue;
    members.insert(child->first);
    child->second.became_worker = child->second.role == "standby" && !member.name.standby();
    if (member.name.state == "draining") child->second.leaves = true;
  }
  for (const WantedRoles::Order& order : wanted_.OnStatus(*status_)) Resize(order, members);
}

void Runner::Resize(const WantedRoles::Order& order, const std::set<pid_t>& members) {
  std::vector<WantedRoles::Process> staying;
  std::set<uint32_t> taken;  // indexes
  for (const auto& [pid, child] : children_) {
    if (child.role == order.role) taken.insert(child.index);
    if (child.work() == order.role && !child.leaves)
      staying.push_back({pid, child.index, members.contains(pid)});
  }
  // Roles that wait for a later start count as wanted, up to the number that is missing.
  if (order.may_start) {
    std::erase_if(later_, [&](const Later& start) {
      if (start.role != order.role) return false;
      const bool wanted = staying.size() < order.count;
      if (wanted) staying.push_back({.index = start.index});
      if (wanted) taken.insert(start.index);
      return !wanted;
    });
  }
  const auto change = WantedRoles::ChangeFor(order, std::move(staying), taken);
  const std::string why = ", since " + std::to_string(order.count) + " are wanted";
  for (const uint32_t index : change.starts) {
    display_.Say("starting " + NameOf(order.role, index) + why);
    StartRole(order.role, index);
  }
  for (const pid_t pid : change.drains) {
    Child& child = children_[pid];
    display_.Say("draining " + NameOf(child.role, child.index) + why);
    child.leaves = true;
    kill(pid, SIGTERM);
  }
  // A non-member has already left the job, on a drain: the job has one fewer process, and no standby replaces
  // it.
  const bool changed =
      order.may_start || std::ranges::any_of(change.drains, [&](pid_t pid) { return members.contains(pid); });
  if (order.role == "worker" && changed) StartStandbys();
}

// Starts standbys up to the job's number, in which those that have become workers do not count.
void Runner::StartStandbys() {
  auto count = std::ranges::count_if(
      children_, [](const auto& entry) { return entry.second.work() == "standby" && !entry.second.leaves; });
  count += std::ranges::count(later_, "standby", &Later::role);
  for (; count < job_.standby; ++count) StartRole("standby", FreeStandby());
}

// The index of a new one, and of its log. The number of logs does not grow with the number of deaths.
uint32_t Runner::FreeStandby() const {
  const auto taken = [this](uint32_t index) {
    const auto is = [index](const auto& one) { return one.role == "standby" && one.index == index; };
    return std::ranges::any_of(std::views::values(children_), is) || std::ranges::any_of(later_, is);
  };
  uint32_t index = 0;
  while (taken(index)) ++index;
  return index;
}

// Ends processes that are alive and do nothing, so that they are replaced like those that have died.
void Runner::EndStuck() {
  const std::string host = net::HostName();
  const auto end = [&](const auto& process) {
    if (!process.stuck || process.host != host) return;
    const auto child = children_.find(static_cast<pid_t>(process.pid));
    if (child == children_.end()) return;
    display_.Say(NameOf(child->second.role, child->second.index) +
                 " is alive but has done nothing for too long; ending it");
    kill(child->first, SIGKILL);
  };
  std::ranges::for_each(status_->members, end);
  std::ranges::for_each(status_->stuck_evicted, end);
}

void Runner::HandleInterrupts() {
  if (coordinator_ended_) return;
  if (interrupts_ > 1) return FailWith(Status(Code::kAborted, "killed before the final checkpoint"));
  if (interrupts_ == 0 || stopping_) return;
  stopping_ = true;
  display_.Say("stopping after a final checkpoint (Ctrl-C again to kill)");
  RequestStop();
}

void Runner::RequestStop() {
  auto reply = client_->Call(protocol::AdminRequest{.kind = protocol::AdminRequest::Kind::kStop},
                             std::chrono::seconds(1));
  // The reply comes when the checkpoint is complete.
  if (!reply.ok() && reply.status().code() != Code::kDeadlineExceeded)
    display_.Say(reply.status().ToString());
}

void Runner::WaitForRest() {
  const Time began = clock_.Now();
  const auto reap = [this](Duration wait) {
    processes_.Await(wait);
    ReapAndReplace();
  };
  const auto reap_until = [&](Time until) {
    while (!processes_.empty() && clock_.Now() < until) reap(until - clock_.Now());
  };
  reap_until(began + kEndGrace);
  processes_.Signal(SIGTERM);
  reap_until(began + kEndDeadline);
  if (processes_.empty()) return;
  processes_.Signal(SIGKILL);
  while (!processes_.empty()) reap(kEndDeadline);
}

void Runner::Fail(const ProcessEnd& end) {
  failure_ = end.name + " ended with status " + std::to_string(end.exit_code) +
             (end.last_error.empty() ? "" : ": " + end.last_error);
  exit_status_ = ExitStatusAfter(end.exit_code);
}

int Runner::Conclude() {
  display_.Finish();
  if (failure_.empty() && coordinator_.exit_code != 0) Fail(coordinator_);
  if (!failure_.empty()) {
    std::fprintf(stderr, "leat: %s (logs: %s/logs)\n", failure_.c_str(), job_.directory.c_str());
    return exit_status_;
  }
  return PrintSummary(job_, options_, {processes_.cpu_seconds(), peak_rss_, stopping_});
}

// As many as are wanted from the start; a resumed job may want others than its file says.
void Runner::StartMembers() {
  PollStatus();
  const auto wanted = status_ ? status_->wanted : std::nullopt;
  const uint32_t servers = wanted ? wanted->ps.value_or(job_.servers) : job_.servers;
  const uint32_t workers = wanted ? wanted->workers.value_or(job_.workers) : job_.workers;
  for (uint32_t i = 0; i < servers; ++i) StartRole("ps", i);
  for (uint32_t i = 0; i < workers; ++i) StartRole("worker", i);
  StartStandbys();
  if (job_.stream->bots() != nullptr) StartRole("bots", 0);
}

// A job that is resumed waits for what may heal, as it does while it runs; in front of a new one sits
// somebody.
Status Runner::StartJob() {
  while (true) {
    Status status = StartCoordinator();
    const bool may_heal = exit_status_ == ExitStatus::kMayHeal && status.code() != Code::kAborted;
    if (status.ok() || !may_heal || options_.source.resume.empty()) return status;
    const Time due = clock_.Now() + restarts_.PauseBefore("coordinator", false);
    display_.Say(status.message() + "; starting the coordinator again");
    while (clock_.Now() < due && interrupts_ == 0) processes_.Await(due - clock_.Now());
    if (interrupts_ > 0) return Status(Code::kAborted, "interrupted");
    coordinator_ended_ = false;
    exit_status_ = ExitStatus::kFailed;
  }
}

int Runner::Run() {
  if (auto status = StartJob(); !status.ok()) {
    if (status.code() != Code::kAborted && status.code() != Code::kInternal) {
      std::error_code ignored;
      if (made_directory_) fs::remove_all(job_.directory, ignored);
      if (options_.overrides.directory.empty())
        fs::remove(fs::path(job_.directory).parent_path(), ignored);  // only if it is empty
    }
    std::fprintf(stderr, "leat: %s\n", status.message().c_str());
    return status.code() == Code::kAborted ? ExitStatus::kInterrupted : exit_status_;
  }
  if (const Status said = SayReady(options_.ready_fd, address_); !said.ok())
    std::fprintf(stderr, "leat: warning: %s\n", said.message().c_str());
  for (const std::string& note : job_.notes) display_.Say(note);
  ExplainFigures(job_, &display_);
  ReportPlacement(job_, &display_);
  StartMembers();

  Time next_status = clock_.Now();
  while (!coordinator_ended_ && failure_.empty()) {
    ReapAndReplace();
    HandleInterrupts();
    StartDue();
    if (clock_.Now() >= next_status) {
      if (PollStatus()) ScaleRoles();
      if (status_) display_.Show(*status_);
      next_status = clock_.Now() + kStatusInterval;
    }
    processes_.Await(next_status - clock_.Now());
  }
  if (!failure_.empty()) processes_.Signal(SIGKILL);
  WaitForRest();
  return Conclude();
}

}  // namespace

int RunLocally(const RunnerOptions& options) {
  BlockSignals();
  return Runner(options, PrepareJob(options)).Run();
}

}  // namespace leat::launcher

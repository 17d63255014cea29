#include "run/launcher/runner.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/exit_status.h"
#include "base/json/text.h"
#include "base/path/absolute_path.h"
#include "base/text.h"
#include "job/bucket.h"
#include "job/evaluate.h"
#include "job/input/readable.h"
#include "job/input/trained_files.h"
#include "job/resume.h"
#include "net/address.h"
#include "net/rpc/client.h"
#include "run/launcher/admin.h"
#include "run/launcher/processes.h"
#include "run/launcher/signals.h"
#include "run/launcher/start/ready.h"
#include "run/launcher/start/stuck_watch.h"
#include "run/launcher/token.h"
#include "run/launcher/wanted_roles.h"
#include "show/report/display.h"
#include "storage/checkpoint/store.h"

namespace leat::launcher {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A coordinator that takes longer to start is waited for in words.
constexpr Duration kUsualStart = std::chrono::seconds(5);
// Checkpoints of this size take seconds to check.
constexpr uint64_t kLargeCheckpoint = uint64_t{1} << 30;
constexpr Duration kStatusInterval = std::chrono::milliseconds(250);
// A coordinator that does not answer may have died, which is noticed after the call.
constexpr Duration kStatusDeadline = std::chrono::seconds(1);
constexpr Duration kEndDeadline = std::chrono::seconds(10);
// Time for roles to end by themselves when the job is over, before they are told. A role that has not joined
// does not know that it is over.
constexpr Duration kEndGrace = std::chrono::seconds(1);
// Consecutive failures of one role, without progress of the job, before the job is given up.
constexpr int kMaxFailedStarts = 5;
// Before a role is started again whose end may heal; doubles.
constexpr Duration kFirstPause = std::chrono::milliseconds(500);
constexpr Duration kMostPause = std::chrono::seconds(10);

// The runner's, for a job that ends with one of its processes.
int ExitStatusAfter(int exit_code) {
  const bool known = exit_code == ExitStatus::kBadInput || exit_code == ExitStatus::kMayHeal ||
                     exit_code == ExitStatus::kInterrupted;
  return known ? exit_code : ExitStatus::kFailed;
}

std::string NameOf(const std::string& role, uint32_t index) {
  return role + "-" + std::to_string(index);
}

// Creates "leat-jobs/<name>-<n>" with the lowest free n, and returns its absolute path.
std::string NewDirectory(const std::string& name) {
  const fs::path folder = AbsolutePathOrThrow("leat-jobs");
  std::error_code error;
  fs::create_directories(folder, error);
  const auto fail = [&error](const std::string& path) {
    Throw({CodeOfErrno(error.value()), "cannot create the directory " + path + ": " + error.message()});
  };
  if (error) fail(folder.string());
  for (int n = 1;; ++n) {
    const fs::path path = folder / (name + "-" + std::to_string(n));
    if (fs::create_directory(path, error)) return path.string();
    if (error) fail(path.string());
  }
}

// The whole newest checkpoint is read, which may take minutes; Ctrl-C ends the process at once.
std::string CheckCheckpoints(const job::Job& job) {
  const SignalWatch signals([](int) { _exit(ExitStatus::kInterrupted); });
  uint64_t bytes = 0;
  if (const auto newest = checkpoint::ReadNewest(job.directory); newest.ok()) {
    for (const auto& shard : newest->shards) bytes += shard.bytes;
  }
  if (bytes >= kLargeCheckpoint)
    std::fprintf(stderr, "checking the checkpoint of %s, %s\n", job.directory.c_str(),
                 protocol::BytesText(bytes).c_str());
  return job::DamageNote(job, job::CheckResumable(job));
}

class Runner {
 public:
  // `made_directory`: the job's directory is new, and is removed if the job cannot be started.
  Runner(const RunnerOptions& options, job::Job job, bool made_directory)
      : options_(options),
        job_(std::move(job)),
        made_directory_(made_directory),
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
    bool has_place = false;  // a standby has become a worker
    bool leaves = false;     // it was told to
    std::string work() const { return has_place ? "worker" : role; }
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
  bool MayRestart(const ProcessEnd& end, bool coordinator);
  Duration PauseBefore(const std::string& name, bool crashed);
  void RestartCoordinator();
  void StartRole(const std::string& role, uint32_t index);
  void StartLater(const std::string& role, uint32_t index, Duration pause);
  void StartDue();
  void ReapAndReplace();
  bool ReportLost(pid_t pid);
  std::string ReplacementOf(const Child& child, bool was_member) const;
  void ExplainFigures();
  void ReportPlacement();
  void TellStarter() const;
  void ShowMetrics(const std::string& address);
  void ShowDashboard(const std::string& address);
  bool PollStatus();  // false: the coordinator does not answer
  void Obey();
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
  const bool made_directory_;
  std::string token_;
  report::Display display_;
  std::atomic<int> interrupts_{0};
  Processes processes_;
  SignalWatch signals_;
  LifeWatch starter_;
  MonotonicClock clock_;
  std::map<pid_t, Child> children_;
  // By the name of a process, since the job last made progress.
  std::map<std::string, int> failed_starts_;
  std::map<std::string, int> retries_;  // restarts after ends that may heal
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
  const auto add = [&spec](const std::vector<std::string>& more) {
    spec.arguments.insert(spec.arguments.end(), more.begin(), more.end());
  };
  add({"coordinator", "--ready-fd", std::to_string(ready[1]), "--listen",
       again ? address_ : options_.listen});
  if (!job_.data.empty()) add({"--data", job_.data});
  if (!options_.tensorboard.empty()) add({"--tensorboard", options_.tensorboard});
  if (options_.tensorboard_gradients) add({"--tensorboard-gradients"});
  if (!options_.metrics.empty()) add({"--metrics", metrics_.empty() ? options_.metrics : metrics_});
  if (!options_.dashboard.empty()) add({"--dashboard", dashboard_.empty() ? options_.dashboard : dashboard_});
  if (again) {
    // The directory has the whole job.
    add({"--resume", job_.directory});
    if (options_.pause_at > last_events_)
      add({"--pause-at", std::to_string(options_.pause_at - last_events_)});
  } else {
    // Otherwise the job that is resumed has the numbers that it had.
    const job::JobOverrides& given = options_.overrides;
    if (options_.source.resume.empty() || !options_.source.file.empty() || given.workers > 0 ||
        given.servers > 0) {
      const std::string workers = ToString(protocol::WorkerRange{job_.workers, job_.max_workers});
      add({"--workers", workers, "--ps", std::to_string(job_.servers)});
    }
    if (options_.source.resume.empty()) {
      add({"--directory", job_.directory});
    } else {
      add({"--resume", job_.directory, "--new-members"});
    }
    add(options_.source_arguments);
    if (options_.pause_at > 0) add({"--pause-at", std::to_string(options_.pause_at)});
    if (const auto* bots = job_.stream.bots(); bots != nullptr)
      add({"--rate", std::to_string(bots->rate), "--events", std::to_string(bots->events)});
  }
  spec.environment = Environment();
  auto pid = processes_.Start(spec);
  close(ready[1]);
  if (!pid.ok()) {
    close(ready[0]);
    exit_status_ = ExitStatusOf(pid.status().code());
    return pid.status();
  }
  children_[*pid] = {.role = "coordinator"};

  // End of file without an address: it has failed.
  fcntl(ready[0], F_SETFL, O_NONBLOCK);
  std::string address, waits, rest;
  const Time began = clock_.Now();
  StuckWatch watch({}, began);
  const bool resumes = again || !options_.source.resume.empty();
  bool late = false;
  // While it is started again, the first Ctrl-C waits for it, unless it waits for others.
  const auto interrupted = [&] { return interrupts_ > (again ? 1 : 0); };
  bool over = false, told = false;
  while (!over && address.empty() && (!waits.empty() || !watch.IsStuck(clock_.Now(), CpuTimeOf(*pid)))) {
    if (interrupts_ > 0 && !waits.empty() && !std::exchange(told, true)) processes_.Signal(*pid, SIGTERM);
    if (interrupted() && (waits.empty() || interrupts_ > 1)) break;
    std::array<char, 4096> buffer{};
    const ssize_t n = read(ready[0], buffer.data(), buffer.size());
    const ReadyNews news =
        TakeReady(std::string_view(buffer.data(), n > 0 ? static_cast<size_t>(n) : 0), &rest);
    address = news.address;
    if (news.waits) {
      waits = *news.waits;
      watch.Restart(clock_.Now(), CpuTimeOf(*pid));
      if (!waits.empty()) display_.Say("the coordinator waits for " + waits);
    }
    over = n == 0;
    if (waits.empty() && clock_.Now() > began + kUsualStart && !std::exchange(late, true))
      display_.Say(resumes
                       ? "waiting for the coordinator, which checks the checkpoint that the job resumes from"
                       : "waiting for the coordinator to start");
    if (n < 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  close(ready[0]);
  if (address.empty()) return OnNotReady(*pid, again, over, spec.log);
  address_ = address;
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
    StartLater(role, index, PauseBefore(name, false));
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

// The place of a worker that was a member is taken by one that stands by, so that the new process stands by
// in turn. If there was none, the place is still free, and the new process takes it.
std::string Runner::ReplacementOf(const Child& child, bool was_member) const {
  return child.role == "worker" && was_member && job_.standby > 0 ? "standby" : child.role;
}

// Whether an end by itself is followed by another start.
bool Runner::MayRestart(const ProcessEnd& end, bool coordinator) {
  switch (AfterExitOf(end.exit_code, coordinator)) {
    case AfterExit::kRestartForEver:
      return true;
    case AfterExit::kRestart:
      return ++failed_starts_[end.name] <= kMaxFailedStarts;
    case AfterExit::kDone:
    case AfterExit::kGiveUp:
      break;
  }
  return false;
}

Duration Runner::PauseBefore(const std::string& name, bool crashed) {
  if (crashed) return Duration::zero();
  return std::min<Duration>(kFirstPause * (1 << std::min(retries_[name]++, 10)), kMostPause);
}

// How a process has ended, and why if it said so.
std::string HowEnded(const ProcessEnd& end) {
  const bool crashed = end.exit_code > ExitStatus::kSignal;
  return "ended (" +
         (crashed ? "signal " + std::to_string(end.exit_code - ExitStatus::kSignal)
                  : "status " + std::to_string(end.exit_code)) +
         (end.last_error.empty() || crashed ? ")" : ": " + end.last_error + ")");
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
      if (!address_.empty() && !coordinator_ended_ && !asked && failure_.empty() && MayRestart(end, true)) {
        display_.Say("the coordinator " + HowEnded(end) + "; starting it again, the job goes on");
        coordinator_due_ = clock_.Now() + PauseBefore(end.name, crashed);
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
    if (!MayRestart(end, false)) {
      Fail(end);
      continue;
    }
    display_.Say(end.name + " " + HowEnded(end) + "; starting a replacement");
    const std::string role = ReplacementOf(child, was_member);
    StartLater(role, role == child.role ? child.index : FreeStandby(), PauseBefore(end.name, crashed));
  }
}

void Runner::StartLater(const std::string& role, uint32_t index, Duration pause) {
  later_.push_back({clock_.Now() + pause, role, index});
}

void Runner::StartDue() {
  if (coordinator_due_ && clock_.Now() >= *coordinator_due_) {
    coordinator_due_.reset();
    RestartCoordinator();
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

void Runner::RestartCoordinator() {
  if (auto status = StartCoordinator(true); !status.ok()) {
    if (ExitStatusOf(status.code()) != ExitStatus::kMayHeal) return FailWith(status);
    display_.Say(status.message() + "; trying again");
    coordinator_due_ = clock_.Now() + PauseBefore("coordinator", false);
  } else if (stopping_) {
    RequestStop();
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
    failed_starts_.clear();
    // The progress is not that of a process which still could not be started.
    std::erase_if(retries_, [this](const auto& retry) {
      return std::ranges::none_of(
          later_, [&](const Later& start) { return NameOf(start.role, start.index) == retry.first; });
    });
  }
  last_events_ = status_->events;
  EndStuck();
  return true;
}

// Starts and drains workers and servers, until the job has what it wants as of the last status.
void Runner::Obey() {
  if (stopping_ || coordinator_ended_ || !failure_.empty()) return;
  if (!status_) return;
  const std::string host = net::HostName();
  std::set<pid_t> members;
  for (const auto& member : status_->members) {
    if (member.host != host) continue;
    const auto child = children_.find(static_cast<pid_t>(member.pid));
    if (child == children_.end()) continue;
    members.insert(child->first);
    child->second.has_place = child->second.role == "standby" && !member.name.standby();
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

// Explains the figures: the bots' rate is easily mistaken for the speed of training.
void Runner::ExplainFigures() {
  const stream::BotsConfig* bots = job_.stream.bots();
  if (bots == nullptr) return;
  const report::StartNotes notes{.bot_events = bots->events,
                                 .bot_rate = bots->rate,
                                 .window = job_.metrics_window,
                                 .auc = job_.model->task() == nn::Task::kBinary,
                                 .servers = job_.servers > 0};
  for (const std::string& line : report::RenderStart(notes)) display_.Say(line);
}

// Prints the share of the parameters of each server, if there are several.
void Runner::ReportPlacement() {
  if (job_.servers < 2) return;
  const protocol::PlacementReport plan = job_.PlacementPlan();
  for (size_t i = 0; i < plan.servers.size(); ++i) {
    const auto& server = plan.servers[i];
    display_.Say(
        Formatted("ps %zu: %s (%.1f%%)", i, protocol::BytesText(server.bytes).c_str(), server.share * 100));
  }
  for (const std::string& warning : plan.warnings)
    std::fprintf(stderr, "leat: warning: %s\n", warning.c_str());
}

void Runner::TellStarter() const {
  const Status said = SayReady(options_.ready_fd, address_);
  if (!said.ok()) std::fprintf(stderr, "leat: warning: %s\n", said.message().c_str());
}

int Runner::Conclude() {
  display_.Finish();
  if (failure_.empty() && coordinator_.exit_code != 0) Fail(coordinator_);
  if (!failure_.empty()) {
    std::fprintf(stderr, "leat: %s (logs: %s/logs)\n", failure_.c_str(), job_.directory.c_str());
    return exit_status_;
  }
  std::ifstream in(job_.directory + "/summary.json");
  Json summary = ParsedOrderedJson(std::string(std::istreambuf_iterator<char>(in), {}));
  if (summary.is_discarded()) {
    const char* const directory = job_.directory.c_str();
    std::fprintf(
        stderr,
        "leat: the coordinator could not write %s/summary.json; leat train --resume %s writes it once "
        "it can\n",
        directory, directory);
    return ExitStatus::kMayHeal;
  }
  summary["aggregated_compute_s"] = processes_.cpu_seconds();
  for (const auto& [role, bytes] : peak_rss_) summary["peak_rss_mb"][role] = static_cast<double>(bytes) / 1e6;
  summary["stopped"] = stopping_;
  if (job_.evaluate && summary["checkpoint"].is_string()) {
    auto evaluation = job::Evaluate(job_, options_.plan);
    if (!evaluation.ok()) {
      std::fprintf(stderr, "leat: evaluation: %s\n", evaluation.status().ToString().c_str());
      return ExitStatusOf(evaluation.status().code());
    }
    if (!evaluation->warning.empty())
      std::fprintf(stderr, "leat: warning: %s\n", evaluation->warning.c_str());
    job::AddToSummary(*evaluation, &summary);
  }
  const std::string text = report::RenderSummary(report::StatusFromJson(JsonText(summary)).value());
  std::fprintf(options_.json ? stderr : stdout, "%s", text.c_str());
  if (options_.json) std::printf("%s\n", JsonText(summary).c_str());
  return 0;
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
  if (job_.stream.bots() != nullptr) StartRole("bots", 0);
}

// A job that is resumed waits for what may heal, as it does while it runs; in front of a new one sits
// somebody.
Status Runner::StartJob() {
  while (true) {
    Status status = StartCoordinator();
    const bool may_heal = exit_status_ == ExitStatus::kMayHeal && status.code() != Code::kAborted;
    if (status.ok() || !may_heal || options_.source.resume.empty()) return status;
    const Time due = clock_.Now() + PauseBefore("coordinator", false);
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
  TellStarter();
  for (const std::string& note : job_.notes) display_.Say(note);
  ExplainFigures();
  ReportPlacement();
  StartMembers();

  Time next_status = clock_.Now();
  while (!coordinator_ended_ && failure_.empty()) {
    ReapAndReplace();
    HandleInterrupts();
    StartDue();
    if (clock_.Now() >= next_status) {
      if (PollStatus()) Obey();
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
  job::JobOverrides overrides = options.overrides;
  job::Job job = job::Job::Load(options.source, overrides);
  // All checks come before the first write.
  if (job.strategy.mpi) {
    job.config.At("strategy")
        .At("transport")
        .Fail("leat train cannot start MPI workers; start `leat coordinator`, then: mpirun -np " +
              std::to_string(job.workers) + " leat worker --coordinator ADDRESS");
  }
  if (!job.autoscale.command.empty()) {
    throw std::invalid_argument(
        "leat train starts and ends workers itself, so the job may not have a command for that (autoscale: "
        "command)");
  }
  for (const Status& status : {CheckListen(options.security, options.listen), CheckJob(options.security, job),
                               topology::CheckOneHost(job.topology, net::HostName(), options.place)}) {
    ThrowIfError(status);
  }
  for (const auto& [option, address] :
       {std::pair("--metrics", options.metrics), {"--dashboard", options.dashboard}}) {
    if (!address.empty()) ThrowIfError(CheckListen(options.security, address).With(option));
  }
  const bool resume = !options.source.resume.empty();
  if (resume) job = job::WithTrained(job, job::ReadStoredWithoutModel(job.directory).inputs);
  // At a resume, the coordinator waits for brokers that are away.
  std::vector<std::string> warnings;
  if (!resume || job.stream.kafka() == nullptr) warnings = job::CheckReadable(job);
  if (!resume) (void)job::CheckBucket(job, false);
  std::error_code error;
  const bool made_directory = job.directory.empty() || !fs::exists(job.directory);
  if (!options.source.resume.empty()) {
    const std::string note = CheckCheckpoints(job);
    if (!note.empty()) job.notes.push_back(note);
  } else {
    if (job.directory.empty()) {
      overrides.directory = NewDirectory(job.name);
    } else if (fs::exists(job.directory + "/job.yaml")) {
      throw std::invalid_argument("directory " + job.directory +
                                  " already holds a job; continue it with --resume, or choose another");
    }
    job = job::Job::Load(options.source, overrides);
  }
  job.notes.insert(job.notes.end(), warnings.begin(), warnings.end());
  for (const std::string& made : {job.directory, job.directory + "/logs"}) {
    if (!error && fs::create_directories(made, error)) fs::permissions(made, fs::perms::owner_all, error);
  }
  if (!error && access(job.directory.c_str(), W_OK) != 0) error.assign(errno, std::generic_category());
  if (error) {
    Throw({CodeOfErrno(error.value()),
           "cannot write to the directory " + job.directory + ": " + error.message()});
  }
  Runner runner(options, std::move(job), made_directory);
  return runner.Run();
}

}  // namespace leat::launcher

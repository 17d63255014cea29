#include "lab/soak/soak.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/text.h"
#include "job/resume.h"
#include "lab/hosts/hosts.h"
#include "net/rpc/client.h"
#include "run/launcher/admin.h"
#include "run/launcher/security.h"
#include "show/report/display.h"
#include "storage/checkpoint/store.h"

namespace leat::soak {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTick = milliseconds(50);
constexpr Duration kStatusInterval = milliseconds(200);
constexpr Duration kStatusDeadline = milliseconds(300);
// A fault whose moment does not come, because others hold the job up, happens after this time.
constexpr Duration kMomentWait = seconds(30);
// Limit of a round, in addition to the time that its stream takes.
constexpr Duration kDeadline = std::chrono::minutes(4);
constexpr uint64_t kDisk = uint64_t{64} << 20;
constexpr uint32_t kSpareHosts = 2;
constexpr int kMaxReplaced = 10;

// Two ports of this host that nobody has at the moment.
std::array<uint16_t, 2> FreePorts() {
  std::array<uint16_t, 2> ports{};
  std::array<int, 2> sockets{};
  for (size_t i = 0; i < ports.size(); ++i) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sockets[i] < 0 || bind(sockets[i], reinterpret_cast<sockaddr*>(&at), size) != 0 ||
        getsockname(sockets[i], reinterpret_cast<sockaddr*>(&at), &size) != 0)
      throw std::runtime_error(std::string("cannot find a free port: ") + std::strerror(errno));
    ports[i] = ntohs(at.sin_port);
  }
  for (const int one : sockets) close(one);
  return ports;
}

std::string EndText(const launcher::ProcessEnd& end) {
  const std::string how = end.exit_code > 128 ? "signal " + std::to_string(end.exit_code - 128)
                                              : "status " + std::to_string(end.exit_code);
  return end.name + " ended with " + how + (end.last_error.empty() ? "" : ": " + end.last_error);
}

class SoakRound {
 public:
  SoakRound(const RoundPlan& plan, const RoundSettings& settings, launcher::Processes& processes)
      : plan_(plan),
        settings_(settings),
        processes_(processes),
        directory_(settings.folder + "/job"),
        token_(launcher::RandomToken()) {}
  ~SoakRound() {
    EndAll();
    if (disk_) hosts::UnmountDisk(directory_);
  }
  SoakRound(const SoakRound&) = delete;
  SoakRound& operator=(const SoakRound&) = delete;

  RoundResult Run() {
    if (const Status made = Prepare(); !made.ok()) {
      result_.failure = made.message();
      return result_;
    }
    StartAll();
    const Time until = clock_.Now() + kDeadline + FromSeconds(static_cast<double>(plan_.events) / kRate);
    while (!over_ && result_.failure.empty()) {
      processes_.Await(kTick);
      if (settings_.interrupted && settings_.interrupted()) {
        result_.interrupted = true;
        return result_;
      }
      Reap();
      RunDue();
      Poll();
      InflictNext();
      if (!over_ && result_.failure.empty() && clock_.Now() > until)
        result_.failure = "not over in time: " + status_;
    }
    EndAll();
    if (result_.failure.empty()) Count();
    if (!result_.failure.empty() && disk_) KeepDisk();
    return result_;
  }

 private:
  struct Member {
    std::string name;
    Part part = Part::kWorker;
    bool bots = false;
    uint32_t host = 0;
    pid_t pid = 0;
    bool leaves = false;     // has got SIGTERM
    bool overtaken = false;  // a coordinator that another one replaces
    bool killed = false;     // by a fault; then another one starts after `again`
    Duration again{0};
    bool elsewhere = false;
  };

  // ---- processes

  Status Prepare() {
    for (const std::string& made : {directory_, settings_.folder + "/logs", settings_.folder + "/scratch"})
      fs::create_directories(made);
    std::ofstream(settings_.folder + "/job.yaml") << plan_.JobText();
    std::ofstream(settings_.folder + "/plan.txt")
        << "seed " << plan_.seed << ": " << plan_.Describe() << "\n";
    if (!settings_.hosts) {
      for (size_t i = 0; const uint16_t port : FreePorts())
        addresses_[i++] = "127.0.0.1:" + std::to_string(port);
      return Status();
    }
    if (plan_.Has(FaultKind::kFullDisk)) {
      LEAT_RETURN_IF_ERROR(hosts::MountDisk(directory_, kDisk));
      disk_ = true;
    }
    const uint32_t count = 1 + plan_.servers + plan_.workers + kSpareHosts;
    LEAT_RETURN_IF_ERROR(hosts_.Make(count));
    for (uint32_t host = 1; plan_.hidden && host < count; ++host)
      LEAT_RETURN_IF_ERROR(hosts_.Hide(host, directory_));
    next_host_ = 1 + plan_.servers + plan_.workers;
    addresses_ = {hosts_.Address(0) + ":7001", hosts_.Address(0) + ":7002"};
    return Status();
  }

  void StartAll() {
    StartCoordinator(true, false);
    uint32_t host = 1;
    for (uint32_t i = 0; i < plan_.servers; ++i) Start(Part::kServer, host++);
    for (uint32_t i = 0; i < plan_.workers; ++i) Start(Part::kWorker, host++);
    Start({.name = "bots", .part = Part::kWorker, .bots = true});
    began_ = clock_.Now();
  }

  std::string Coordinators() const { return addresses_[0] + "," + addresses_[1]; }

  void StartCoordinator(bool first, bool take_over) {
    std::vector<std::string> arguments = {"coordinator", "--listen", addresses_[at_]};
    if (first) {
      arguments.insert(arguments.end(), {settings_.folder + "/job.yaml", "--directory", directory_});
    } else {
      arguments.insert(arguments.end(), {"--resume", directory_});
    }
    if (take_over) arguments.push_back("--take-over");
    Launch({.name = "coordinator-" + std::to_string(started_[2]++), .part = Part::kCoordinator}, arguments);
    client_ = control::ControlClient::Make(addresses_[at_], token_, nullptr);
  }

  void Start(Part part, uint32_t host) {
    const std::string role = part == Part::kServer ? "ps" : "worker";
    const std::string listen = settings_.hosts ? hosts_.Address(host) + ":0" : "127.0.0.1:0";
    const std::string name = role + "-" + std::to_string(started_[static_cast<size_t>(part)]++);
    const std::string scratch = settings_.folder + "/scratch/" + name;
    fs::create_directories(scratch);
    Launch({.name = name, .part = part, .host = host},
           {role, "--coordinator", Coordinators(), "--listen", listen, "--scratch", scratch});
  }

  void Launch(Member member, std::vector<std::string> arguments) {
    launcher::ProcessSpec spec{.name = member.name,
                               .arguments = std::move(arguments),
                               .environment = {{"LEAT_TOKEN", token_},
                                               {"LEAT_METRICS", ""},
                                               {"LEAT_SECURITY", ""},
                                               {"LEAT_TRUSTED_NETWORK", "1"},
                                               {"OMP_NUM_THREADS", "1"}},
                               .log = settings_.folder + "/logs/" + member.name + ".log"};
    if (settings_.hosts) spec.namespaces = hosts_.Namespaces(member.host);
    const auto pid = processes_.Start(spec);
    if (!pid.ok()) return Fail(pid.status().message());
    member.pid = *pid;
    members_.push_back(std::move(member));
  }

  void EndAll() {
    processes_.Signal(SIGKILL);
    while (!processes_.empty()) {
      processes_.Await(seconds(1));
      processes_.Reap();
    }
    members_.clear();
  }

  void Reap() {
    for (const launcher::ProcessEnd& end : processes_.Reap()) {
      const auto at = std::ranges::find(members_, end.pid, &Member::pid);
      if (at == members_.end()) continue;
      const Member member = *at;
      members_.erase(at);
      OnEnd(member, end);
    }
  }

  void OnEnd(Member member, const launcher::ProcessEnd& end) {
    const bool by_kill = end.exit_code == 128 + SIGKILL;
    if (by_kill && !member.killed && !died_ && plan_.Has(FaultKind::kDie)) {
      died_ = member.killed = true;
      member.again = std::ranges::find(plan_.faults, FaultKind::kDie, &RoundFault::kind)->lasts;
    }
    if (by_kill && member.killed) {
      ++result_.deaths;
      return Later(member.again, [this, member] { Start(member); });
    }
    if (member.overtaken) return;
    if (member.part == Part::kCoordinator) {
      over_ = end.exit_code == 0;
      if (!over_) Fail(EndText(end));
      return;
    }
    if (end.exit_code == 0) return;
    // As the local runner does, unless it has crashed.
    if (end.exit_code > 128 || ++replaced_ > kMaxReplaced) return Fail(EndText(end));
    Later(milliseconds(200), [this, member] { Start(member); });
  }

  void Start(const Member& member) {
    if (member.part == Part::kCoordinator) {
      if (member.elsewhere) at_ = 1 - at_;
      return StartCoordinator(false, false);
    }
    if (member.bots)
      return Launch({.name = "bots", .part = Part::kWorker, .bots = true},
                    {"bots", "--coordinator", Coordinators()});
    Start(member.part, member.host);
  }

  // ---- faults

  void InflictNext() {
    if (next_fault_ == plan_.faults.size()) return;
    const RoundFault& fault = plan_.faults[next_fault_];
    if (events_ < fault.moment && clock_.Now() < began_ + kMomentWait) return;
    ++next_fault_;
    began_ = clock_.Now();
    Inflict(fault);
  }

  // The process that a fault is about; null if there is none.
  Member* Find(Part part, uint32_t index) {
    std::vector<Member*> all;
    for (Member& member : members_) {
      if (member.part == part && !member.bots && !member.leaves && !member.overtaken && !member.killed)
        all.push_back(&member);
    }
    return all.empty() ? nullptr : all[index % all.size()];
  }

  void Inflict(const RoundFault& fault) {
    if (fault.kind == FaultKind::kDie) return;  // the job does it
    if (fault.kind == FaultKind::kJoin) return Start(fault.part, NextHost());
    if (fault.kind == FaultKind::kFullDisk) return FillDisk(fault.lasts);
    if (fault.kind == FaultKind::kRolling) return Roll(fault.lasts);
    Member* const member = Find(fault.part, fault.index);
    if (member == nullptr) return;
    const pid_t pid = member->pid;
    switch (fault.kind) {
      case FaultKind::kKill:
        return Kill(member, fault.lasts, fault.elsewhere);
      case FaultKind::kStop:
        Signal(pid, SIGSTOP);
        return Later(fault.lasts, [this, pid] { Signal(pid, SIGCONT); });
      case FaultKind::kCut:
        Require(hosts_.Cut(member->host));
        return Later(fault.lasts, [this, host = member->host] { Require(hosts_.Mend(host)); });
      case FaultKind::kReplace:
        return Replace(member, fault.lasts);
      case FaultKind::kTakeOver:
        Signal(pid, SIGSTOP);
        member->overtaken = true;
        Later(milliseconds(300), [this] {
          at_ = 1 - at_;
          StartCoordinator(false, true);
        });
        return Later(fault.lasts, [this, pid] { Signal(pid, SIGCONT); });
      default:
        return;
    }
  }

  void Kill(Member* member, Duration again, bool elsewhere) {
    member->killed = true;
    member->again = again;
    member->elsewhere = elsewhere;
    Signal(member->pid, SIGKILL);
  }

  void Replace(Member* member, Duration gap) {
    member->leaves = true;
    Signal(member->pid, SIGTERM);
    Later(gap, [this, part = member->part, host = member->host] { Start(part, host); });
  }

  void Roll(Duration gap) {
    Duration at{0};
    for (const Part part : {Part::kServer, Part::kWorker}) {
      const uint32_t count = part == Part::kServer ? plan_.servers : plan_.workers;
      // The ones that have been replaced are the last.
      for (uint32_t i = 0; i < count; ++i, at += gap) {
        Later(at, [this, part, gap] {
          if (Member* const member = Find(part, 0)) Replace(member, gap / 2);
        });
      }
    }
    Later(at, [this] {
      if (Member* const member = Find(Part::kCoordinator, 0)) Kill(member, milliseconds(100), false);
    });
  }

  void FillDisk(Duration lasts) {
    const std::string path = directory_ + "/ballast";
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return Fail("cannot write " + path + ": " + std::strerror(errno));
    const std::vector<char> block(4096, 'x');
    while (write(file, block.data(), block.size()) > 0) continue;
    close(file);
    Later(lasts, [path] { unlink(path.c_str()); });
  }

  uint32_t NextHost() {
    if (!settings_.hosts) return 0;
    const uint32_t first = 1 + plan_.servers + plan_.workers;
    return first + (next_host_++ - first) % kSpareHosts;
  }

  // Only to a child that has not been reaped, so the number is still its own.
  void Signal(pid_t pid, int signal) {
    if (std::ranges::find(members_, pid, &Member::pid) != members_.end()) kill(pid, signal);
  }

  void Later(Duration wait, std::function<void()> what) {
    due_.emplace(clock_.Now() + wait, std::move(what));
  }
  void RunDue() {
    while (!due_.empty() && due_.begin()->first <= clock_.Now() && !over_) {
      const auto what = std::move(due_.begin()->second);
      due_.erase(due_.begin());
      what();
    }
  }

  // ---- the job

  void Poll() {
    if (over_ || clock_.Now() < next_status_) return;
    const auto status = launcher::AskStatus(*client_, kStatusDeadline);
    next_status_ = clock_.Now() + kStatusInterval;
    if (!status.ok()) return;
    events_ = status->events;
    status_ =
        status->phase + ", " + report::Grouped(events_) + " of " + report::Grouped(plan_.events) + " events";
    if (!status->waiting_for.empty()) status_ += ", waiting for " + status->waiting_for;
  }

  // After the end of the job.
  void Count() {
    try {
      const job::Job job = job::ReadStored(directory_);
      const auto table = job.Slices();
      if (table.slices.size() < 8)
        return Fail("the job has " + std::to_string(table.slices.size()) + " slices only");
      auto source = job.stream->Open();
      if (!source.ok()) return Fail(source.status().message());
      const auto ranges = (*source)->Ranges();
      if (!ranges.ok()) return Fail(ranges.status().message());
      for (const auto& range : *ranges) result_.published += range.end;
      const auto newest = checkpoint::ReadNewestVariables(directory_, table);
      if (!newest.ok()) return Fail(newest.status().message());
      const Tally tally = TallyOf(newest->variables, result_.published);
      result_.lost = tally.lost;
      result_.twice = tally.twice;
      result_.failure = tally.reason;
      std::ifstream in(directory_ + "/summary.json");
      const auto summary = report::StatusFromJson(std::string(std::istreambuf_iterator<char>(in), {}));
      if (!summary.ok()) return Fail("the coordinator has written no summary.json");
      result_.counted = summary->events;
      if (result_.published != plan_.events) {
        Fail(report::Grouped(result_.published) + " events were published, not " +
             report::Grouped(plan_.events));
      } else if (result_.counted != plan_.events) {
        Fail("the summary has " + report::Grouped(result_.counted) + " events of " +
             report::Grouped(plan_.events));
      }
    } catch (const std::invalid_argument& e) {
      Fail(e.what());
    }
  }

  // The disk is gone with this process.
  void KeepDisk() const {
    std::error_code ignored;
    fs::copy(directory_, settings_.folder + "/job-kept", fs::copy_options::recursive, ignored);
  }

  void Require(const Status& status) {
    if (!status.ok()) Fail(status.message());
  }
  // The first reason counts.
  void Fail(const std::string& why) {
    if (result_.failure.empty()) result_.failure = why;
  }

  const RoundPlan& plan_;
  const RoundSettings& settings_;
  launcher::Processes& processes_;
  const std::string directory_, token_;
  MonotonicClock clock_;
  hosts::Hosts hosts_;
  bool disk_ = false;
  std::array<std::string, 2> addresses_;  // two for the coordinator, which may move
  size_t at_ = 0;                         // index of the newest coordinator's address
  std::unique_ptr<control::ControlClient> client_;
  std::vector<Member> members_;
  std::array<uint32_t, 3> started_{};  // by part
  uint32_t next_host_ = 0;
  int replaced_ = 0;   // processes that have ended by themselves
  bool died_ = false;  // the process that the job has die
  size_t next_fault_ = 0;
  Time began_{0};  // start of the round, or of the last fault
  std::multimap<Time, std::function<void()>> due_;
  Time next_status_{0};
  uint64_t events_ = 0;
  std::string status_ = "no status yet";
  bool over_ = false;
  RoundResult result_;
};

}  // namespace

Tally TallyOf(const std::vector<std::vector<float>>& variables, uint64_t events) {
  Tally tally;
  const auto expected = static_cast<double>(events);
  uint64_t all = 0;
  double least = expected, most = expected;
  for (const auto& values : variables) {
    all += values.size();
    for (const double value : values) {
      if (value == expected) continue;
      ++tally.wrong;
      least = std::isfinite(value) ? std::min(least, value) : 0;  // a non-finite value has lost all events
      if (std::isfinite(value)) most = std::max(most, value);
    }
  }
  // Parts of an event are as bad as a whole one.
  tally.lost = static_cast<uint64_t>(std::ceil(expected - std::max(least, 0.0)));
  tally.twice = static_cast<uint64_t>(std::ceil(most - expected));
  if (all == 0) {
    tally.lost = events;
    tally.reason = "the checkpoint has no parameter";
  } else if (tally.wrong > 0) {
    tally.reason =
        Formatted("%s of %s parameters are wrong: from %.9g to %.9g of %.9g events",
                  report::Grouped(tally.wrong).c_str(), report::Grouped(all).c_str(), least, most, expected);
  }
  return tally;
}

RoundResult RunRound(const RoundPlan& plan, const RoundSettings& settings, launcher::Processes& processes) {
  return SoakRound(plan, settings, processes).Run();
}

}  // namespace leat::soak

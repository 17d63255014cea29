#include "lab/study/real_point.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "lab/study/measurement.h"
#include "net/rpc/client.h"
#include "run/launcher/admin.h"
#include "run/launcher/security.h"

namespace leat::study {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kPoll = milliseconds(25);
constexpr Duration kEndWithin = seconds(20);
constexpr const char* kPort = ":7001";

class Point {
 public:
  explicit Point(const RealPoint& point) : point_(point), token_(launcher::RandomToken()) {}

  Result<RealResult> Run() {
    LEAT_RETURN_IF_ERROR(Start());
    const bool whole = point_.measure == Duration(0);
    ThroughputMeter meter(point_.warm_up);
    TargetWatch target(point_.target);
    RealResult result;
    Time progress = clock_.Now();
    uint64_t events = 0;
    std::optional<ProcessorTicks> ticks;
    while (whole ? !over_ : meter.measured() < point_.measure) {
      if (point_.interrupted && point_.interrupted()) return Status(Code::kAborted, "interrupted");
      if (clock_.Now() - progress > point_.within)
        return Status(Code::kDeadlineExceeded, "no progress; see " + point_.folder + "/logs");
      processes_.Await(kPoll);
      LEAT_RETURN_IF_ERROR(Reap());
      auto status = launcher::AskStatus(*client_, seconds(2));
      if (!status.ok()) continue;
      if (status->events > events) progress = clock_.Now();
      events = status->events;
      meter.Add(clock_.Now(), events);
      target.OnStatus(*status);
      if (meter.rate() && !ticks) ticks = ProcessorTicks::Now();
      result.summary = std::move(*status);
    }
    if (ticks) {
      const ProcessorTicks now = ProcessorTicks::Now();
      if (now.all > ticks->all) result.processors = (now.busy - ticks->busy) / (now.all - ticks->all);
    }
    if (whole) {
      LEAT_RETURN_IF_ERROR(AwaitRest());
      std::ifstream in(point_.folder + "/job/summary.json");
      auto summary = report::StatusFromJson(std::string(std::istreambuf_iterator<char>(in), {}));
      if (!summary.ok()) return Status(Code::kInternal, "the job has left no summary");
      result.summary = std::move(*summary);
      target.OnStatus(result.summary);
    }
    result.events_per_s = meter.rate().value_or(0);
    result.cpu_s = processes_.cpu_seconds();
    result.reached = target.reached();
    return result;
  }

 private:
  Status Start() {
    fs::create_directories(point_.folder + "/logs");
    std::string coordinator = "127.0.0.1:0";
    if (point_.on_hosts) {
      LEAT_RETURN_IF_ERROR(hosts_.Make(1 + point_.workers + point_.servers));
      for (uint32_t host = 1; point_.bits_per_s > 0 && host <= point_.workers + point_.servers; ++host)
        LEAT_RETURN_IF_ERROR(hosts_.Shape(host, point_.bits_per_s, point_.burst));
      coordinator = hosts_.Address(0) + kPort;
    }
    std::vector<std::string> arguments{
        "coordinator", point_.job_file, "--directory", point_.folder + "/job",
        "--listen",    coordinator,     "--workers",   std::to_string(point_.workers)};
    if (point_.servers > 0) arguments.insert(arguments.end(), {"--ps", std::to_string(point_.servers)});
    if (!point_.data.empty()) arguments.insert(arguments.end(), {"--data", point_.data});
    LEAT_RETURN_IF_ERROR(Launch("coordinator", 0, arguments));
    LEAT_ASSIGN_OR_RETURN(coordinator, CoordinatorAddress());
    client_ = control::ControlClient::Make(coordinator, token_, nullptr);
    uint32_t host = 1;
    for (uint32_t i = 0; i < point_.servers; ++i, ++host)
      LEAT_RETURN_IF_ERROR(LaunchMember("ps", i, host, coordinator));
    for (uint32_t i = 0; i < point_.workers; ++i, ++host)
      LEAT_RETURN_IF_ERROR(LaunchMember("worker", i, host, coordinator));
    return Status();
  }

  Status LaunchMember(const std::string& role, uint32_t index, uint32_t host,
                      const std::string& coordinator) {
    const std::string name = role + "-" + std::to_string(index);
    const std::string scratch = point_.folder + "/scratch/" + name;
    fs::create_directories(scratch);
    return Launch(name, host,
                  {role, "--coordinator", coordinator, "--listen",
                   (point_.on_hosts ? hosts_.Address(host) : "127.0.0.1") + ":0", "--scratch", scratch});
  }

  Status Launch(const std::string& name, uint32_t host, std::vector<std::string> arguments) {
    return processes_
        .Start({.name = name,
                .arguments = std::move(arguments),
                .environment = {{"LEAT_TOKEN", token_},
                                {"LEAT_METRICS", ""},
                                {"LEAT_SECURITY", ""},
                                {"LEAT_TRUSTED_NETWORK", "1"},
                                {"OMP_NUM_THREADS", "1"}},
                .log = point_.folder + "/logs/" + name + ".log",
                .namespaces = point_.on_hosts ? hosts_.Namespaces(host) : std::vector<int>(),
                .program = point_.program})
        .status();
  }

  // The coordinator says it when it is ready.
  Result<std::string> CoordinatorAddress() {
    const std::string said = "serves on ";
    for (const Time until = clock_.Now() + point_.within; clock_.Now() < until;) {
      std::ostringstream text;
      text << std::ifstream(point_.folder + "/logs/coordinator.log").rdbuf();
      const std::string all = text.str();
      const size_t at = all.find(said);
      if (at != std::string::npos && all.find('\n', at) != std::string::npos) {
        const size_t begin = at + said.size();
        return all.substr(begin, all.find_first_of(" \n", begin) - begin);
      }
      if (point_.interrupted && point_.interrupted()) return Status(Code::kAborted, "interrupted");
      processes_.Await(kPoll);
      LEAT_RETURN_IF_ERROR(Reap());
      if (over_)
        return Status(Code::kInternal, "the coordinator ended at once; see " + point_.folder + "/logs");
    }
    return Status(Code::kDeadlineExceeded, "the coordinator did not start");
  }

  // A process that fails ends the run: what it measures is a job without failures.
  Status Reap() {
    for (const launcher::ProcessEnd& end : processes_.Reap()) {
      over_ = over_ || end.name == "coordinator";
      if (end.exit_code == 0) continue;
      return Status(Code::kInternal, end.name + " ended with status " + std::to_string(end.exit_code) +
                                         (end.last_error.empty() ? "" : ": " + end.last_error) +
                                         " (logs: " + point_.folder + "/logs)");
    }
    return Status();
  }

  Status AwaitRest() {
    for (const Time until = clock_.Now() + kEndWithin; !processes_.empty() && clock_.Now() < until;) {
      processes_.Await(until - clock_.Now());
      LEAT_RETURN_IF_ERROR(Reap());
    }
    return processes_.empty() ? Status()
                              : Status(Code::kDeadlineExceeded, "a process does not end after the job");
  }

  const RealPoint& point_;
  const std::string token_;
  MonotonicClock clock_;
  hosts::Hosts hosts_;
  launcher::Processes processes_;  // ends the processes that are left
  std::unique_ptr<control::ControlClient> client_;
  bool over_ = false;  // the coordinator has ended
};

}  // namespace

Result<RealResult> RunReal(const RealPoint& point) {
  return Point(point).Run();
}

Status RunOn(const hosts::Hosts& hosts, uint32_t host, launcher::Processes& processes,
             launcher::ProcessSpec spec, Duration within) {
  spec.namespaces = hosts.Namespaces(host);
  const MonotonicClock clock;
  const Time until = clock.Now() + within;
  LEAT_ASSIGN_OR_RETURN(const pid_t pid, processes.Start(spec));
  while (clock.Now() < until) {
    processes.Await(until - clock.Now());
    for (const launcher::ProcessEnd& end : processes.Reap()) {
      if (end.pid != pid) continue;
      return end.exit_code == 0 ? Status() : Status(Code::kInternal, end.name + ": " + end.last_error);
    }
  }
  return Status(Code::kDeadlineExceeded, spec.name + " takes too long");
}

ProcessorTicks ProcessorTicks::Now() {
  std::ifstream in("/proc/stat");
  std::string word;
  in >> word;
  ProcessorTicks ticks;
  double value = 0;
  // user, nice, system, idle, iowait, irq, softirq, steal
  for (int i = 0; i < 8 && in >> value; ++i) {
    ticks.all += value;
    if (i != 3 && i != 4) ticks.busy += value;
  }
  return ticks;
}

}  // namespace leat::study

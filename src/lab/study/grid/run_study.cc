#include "lab/study/grid/run_study.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/encoding/printable.h"
#include "base/exit_status.h"
#include "base/json/text.h"
#include "base/text.h"
#include "lab/hosts/hosts.h"
#include "lab/sim/events/distribution.h"
#include "lab/study/profile.h"
#include "net/rpc/client.h"
#include "run/launcher/admin.h"
#include "run/launcher/output/output_file.h"
#include "run/launcher/processes.h"
#include "run/launcher/security.h"

namespace leat::study {

namespace {

namespace fs = std::filesystem;
using fields::NameOf;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStudyPoll = milliseconds(200);
constexpr Duration kRealPoll = milliseconds(25);
constexpr Duration kEndWithin = seconds(20);
constexpr const char* kPort = ":7001";

std::string ContentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Busy and all time of this machine's processors since it was started, in ticks.
struct ProcessorTicks {
  double busy = 0, all = 0;
  static ProcessorTicks Now() {
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
};

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
      processes_.Await(kRealPoll);
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
      auto summary = report::StatusFromJson(ContentOf(point_.folder + "/job/summary.json"));
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
    for (const auto& [role, count] :
         {std::pair<std::string, uint32_t>("ps", point_.servers), {"worker", point_.workers}}) {
      for (uint32_t i = 0; i < count; ++i, ++host) {
        const std::string name = role + "-" + std::to_string(i);
        const std::string scratch = point_.folder + "/scratch/" + name;
        const std::string listen = (point_.on_hosts ? hosts_.Address(host) : "127.0.0.1") + ":0";
        fs::create_directories(scratch);
        LEAT_RETURN_IF_ERROR(Launch(
            name, host, {role, "--coordinator", coordinator, "--listen", listen, "--scratch", scratch}));
      }
    }
    return Status();
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
      const std::string all = ContentOf(point_.folder + "/logs/coordinator.log");
      const size_t at = all.find(said);
      if (at != std::string::npos && all.find('\n', at) != std::string::npos) {
        const size_t begin = at + said.size();
        return all.substr(begin, all.find_first_of(" \n", begin) - begin);
      }
      if (point_.interrupted && point_.interrupted()) return Status(Code::kAborted, "interrupted");
      processes_.Await(kRealPoll);
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

class Runner {
 public:
  Runner(const StudyFile& study, const StudyRun& run, std::vector<PlannedPoint>* plan)
      : study_(study), run_(run), plan_(*plan) {}

  Status Run() {
    for (const char* folder : {"points", "jobs", "logs"}) {
      std::error_code error;
      fs::create_directories(run_.folder + "/" + folder, error);
      if (error)
        return Status(CodeOfErrno(error.value()), "cannot make " + run_.folder + ": " + error.message());
    }
    began_ = clock_.Now();
    Status status;
    for (PlannedPoint& planned : plan_) {
      if (!planned.done && planned.mode == Mode::kReal && status.ok()) status = RunRealPoint(&planned);
    }
    if (status.ok()) status = RunSimulated();
    return status;
  }

 private:
  bool Interrupted() const { return run_.interrupted && run_.interrupted(); }
  std::string KeyOf(const GridPoint& point) const { return study::KeyOf(study_, point); }
  bool Stepped(const GridPoint& point) const {
    const std::string text = StrategyText(study_, point.strategy);
    return !text.starts_with("async") && !text.starts_with("downpour");
  }

  Result<std::string> WriteJob(const PlannedPoint& planned) {
    const std::string path = run_.folder + "/jobs/" + KeyOf(planned.point) + ".yaml";
    LEAT_RETURN_IF_ERROR(launcher::WriteOutput(path, JobOf(study_, planned.point)));
    return path;
  }

  Status RunRealPoint(PlannedPoint* planned) {
    LEAT_ASSIGN_OR_RETURN(const std::string job, WriteJob(*planned));
    const std::string folder = run_.folder + "/runs/" + KeyOf(planned->point);
    std::error_code ignored;
    fs::remove_all(folder, ignored);  // an interrupted study may have left it
    PointResult result{.point = planned->point, .mode = Mode::kReal};
    const double bits = 8 * sim::ParseBandwidth(study_.links[planned->point.link]);
    const Result<RealResult> real =
        RunReal({.job_file = job,
                 .data = run_.data,
                 .workers = planned->point.workers,
                 .servers = planned->point.servers,
                 .folder = folder,
                 .on_hosts = run_.plan.on_hosts && bits > 0,
                 .bits_per_s = bits,
                 .burst = std::max<uint64_t>(sim::ParseBytes(study_.burst), 64 << 10),
                 .target = study_.target,
                 .interrupted = run_.interrupted});
    if (!real.ok() && real.status().code() == Code::kAborted) return real.status();
    if (real.ok()) {
      result.events_per_s = real->events_per_s;
      Fill(real->summary, bits / 8, run_.facts.model_bytes, Stepped(planned->point), &result);
      result.compute_s = real->cpu_s;
      if (real->reached) {
        result.target_s = real->reached->seconds;
        result.target_events = real->reached->events;
      }
      fs::remove_all(folder, ignored);
    } else {
      result.error = real.status().message();
    }
    return Keep(planned, std::move(result));
  }

  // The command line of a simulated point.
  Result<std::vector<std::string>> Command(const PlannedPoint& planned) {
    LEAT_ASSIGN_OR_RETURN(const std::string job, WriteJob(planned));
    const GridPoint& point = planned.point;
    std::vector<std::string> line{"simulate", job, "--json", "--workers", std::to_string(point.workers)};
    const auto add = [&line](const std::string& option, const std::string& value) {
      if (!value.empty()) line.insert(line.end(), {option, value});
    };
    if (point.servers > 0) add("--ps", std::to_string(point.servers));
    add("--data", run_.data);
    add("--compute", study_.compute);
    add("--slow", study_.slow);
    if (study_.compute.empty()) add("--profile", run_.profile);
    if (planned.mode == Mode::kComputed) {
      line.push_back("--real");
      if (study_.target) {
        std::ostringstream target;
        target << study_.target->figure << "=" << study_.target->value;
        add("--target", target.str());
      }
    } else {
      add("--events", std::to_string(static_cast<uint64_t>(std::max(1.0, planned.events))));
    }
    // Processes share this machine, or have a host each.
    if (run_.plan.oversubscribe || study_.inputs[point.input] != "unlimited") {
      LEAT_ASSIGN_OR_RETURN(const std::string cluster, WriteCluster(point));
      add("--cluster", cluster);
    } else {
      add("--link", study_.links[point.link]);
      add("--latency", study_.latency);
      add("--burst", study_.burst);
    }
    return line;
  }

  Result<std::string> WriteCluster(const GridPoint& point) {
    const std::string path = run_.folder + "/jobs/" + KeyOf(point) + ".cluster.yaml";
    std::ostringstream text;
    text << "classes:\n  host: {link: " << study_.links[point.link] << ", latency: " << study_.latency
         << ", burst: " << study_.burst;
    if (run_.plan.oversubscribe) text << ", cores: " << run_.plan.cores;
    text << "}\nhosts:\n";
    if (run_.plan.oversubscribe) {
      text << "  - {class: host, workers: " << point.workers << ", ps: " << point.servers << "}\n";
    } else {
      text << "  - {class: host, count: " << point.workers << ", workers: 1}\n";
      if (point.servers > 0) text << "  - {class: host, count: " << point.servers << ", ps: 1}\n";
    }
    if (const std::string& input = study_.inputs[point.input]; input != "unlimited")
      text << "input: {link: " << input << ", event_bytes: " << run_.facts.event_bytes << "}\n";
    LEAT_RETURN_IF_ERROR(launcher::WriteOutput(path, text.str()));
    return path;
  }

  std::string LogOf(const PlannedPoint& planned) const {
    return run_.folder + "/logs/" + KeyOf(planned.point) + ".log";
  }

  Status RunSimulated() {
    launcher::Processes processes;
    std::map<pid_t, PlannedPoint*> running;
    auto next = plan_.begin();
    while (true) {
      while (running.size() < std::max(1u, run_.plan.cores) && next != plan_.end()) {
        PlannedPoint& planned = *next++;
        if (planned.done || planned.mode == Mode::kReal) continue;
        LEAT_ASSIGN_OR_RETURN(const std::vector<std::string> command, Command(planned));
        std::error_code ignored;
        fs::remove(LogOf(planned), ignored);
        const auto pid =
            processes.Start({.name = KeyOf(planned.point), .arguments = command, .log = LogOf(planned)});
        if (!pid.ok()) return pid.status();
        running[*pid] = &planned;
      }
      if (running.empty()) return Status();
      processes.Await(kStudyPoll);
      if (Interrupted()) return Status(Code::kAborted, "interrupted");  // the processes end with `processes`
      for (const launcher::ProcessEnd& end : processes.Reap()) {
        const auto at = running.find(end.pid);
        if (at == running.end()) continue;
        PlannedPoint* const planned = at->second;
        running.erase(at);
        LEAT_RETURN_IF_ERROR(Keep(planned, ResultOf(*planned, end)));
      }
    }
  }

  PointResult ResultOf(const PlannedPoint& planned, const launcher::ProcessEnd& end) {
    PointResult result{.point = planned.point, .mode = planned.mode};
    const std::string log = ContentOf(LogOf(planned));
    const size_t begin = log.rfind("\n{");
    const std::string text = log.starts_with("{") && begin == std::string::npos ? log
                             : begin == std::string::npos                       ? ""
                                                                                : log.substr(begin + 1);
    const auto summary = report::StatusFromJson(text);
    if (end.exit_code != 0 || !summary.ok()) {
      result.error = !end.last_error.empty() ? end.last_error
                     : end.exit_code > 128
                         ? "signal " + std::to_string(end.exit_code - 128)
                         : "status " + std::to_string(end.exit_code) + "; see " + LogOf(planned);
      return result;
    }
    const double bytes_per_s = sim::ParseBandwidth(study_.links[planned.point.link]);
    // The entries that only `leat simulate` has.
    const auto json = ParsedJson(text);
    const auto number = [](const nlohmann::json& in, const char* key) {
      return in.is_object() && in.contains(key) && in.at(key).is_number()
                 ? std::optional(in.at(key).get<double>())
                 : std::nullopt;
    };
    result.events_per_s = number(json, "steady_events_per_s").value_or(0);
    Fill(*summary, bytes_per_s, run_.facts.model_bytes, Stepped(planned.point), &result);
    if (const double source = sim::ParseBandwidth(study_.inputs[planned.point.input]); source > 0)
      result.usage.source_link = result.events_per_s * run_.facts.event_bytes / source;
    for (const report::MemberStatus& member : summary->members) result.compute_s += member.cpu_s.value_or(0);
    if (json.contains("target")) {
      result.target_s = number(json.at("target"), "reached_s");
      result.target_events = number(json.at("target"), "events");
    }
    return result;
  }

  Status Keep(PlannedPoint* planned, PointResult result) {
    result.cost = CostOf(study_, result);
    auto json = ToJson(study_, result);
    json["hash"] = ToHex(HashOf(study_, planned->point, NameOf(planned->mode)));
    LEAT_RETURN_IF_ERROR(launcher::WriteOutput(run_.folder + "/points/" + KeyOf(planned->point) + ".json",
                                               JsonText(json, 2) + "\n"));
    planned->done = true;
    estimated_ += planned->seconds;
    if (!run_.say) return Status();
    const auto done = std::ranges::count_if(plan_, [](const PlannedPoint& p) { return p.done; });
    const double took = Seconds(clock_.Now() - began_);
    const std::string text = result.error.empty()
                                 ? Formatted("%.0f events/s in %.1f s", result.events_per_s, result.seconds)
                                 : Formatted("failed: %.150s", result.error.c_str());
    std::string line = "[" + std::to_string(done) + "/" + std::to_string(plan_.size()) + "] " +
                       KeyOf(planned->point) + " (" + std::string(NameOf(planned->mode)) + "): " + text;
    if (static_cast<size_t>(done) < plan_.size()) {
      line += Formatted("; about %.0f s left", SecondsLeft(plan_, estimated_, took, run_.plan.cores));
    }
    run_.say(line);
    return Status();
  }

  const StudyFile& study_;
  const StudyRun& run_;
  std::vector<PlannedPoint>& plan_;
  MonotonicClock clock_;
  Time began_{0};
  double estimated_ = 0;  // estimated time of the points that this run has done
};

// The result of a point, if it is there and of this point.
std::optional<PointResult> Read(const StudyFile& study, const StudyRun& run, const PlannedPoint& planned) {
  const std::string text = ContentOf(run.folder + "/points/" + KeyOf(study, planned.point) + ".json");
  if (text.empty()) return std::nullopt;
  const auto json = ParsedJson(text);
  if (!json.is_object() ||
      json.value("hash", "") != ToHex(HashOf(study, planned.point, NameOf(planned.mode))))
    return std::nullopt;
  auto result = ParseResult(text, planned.point);
  if (!result.ok()) return std::nullopt;
  return std::move(result).value();
}

}  // namespace

Result<RealResult> RunReal(const RealPoint& point) {
  return Point(point).Run();
}

void FindDone(const StudyFile& study, const StudyRun& run, std::vector<PlannedPoint>* plan) {
  for (PlannedPoint& planned : *plan) {
    const auto result = Read(study, run, planned);
    planned.done = result && result->error.empty();
  }
}

Status RunStudy(const StudyFile& study, const StudyRun& run, std::vector<PlannedPoint>* plan) {
  return Runner(study, run, plan).Run();
}

std::vector<PointResult> ReadResults(const StudyFile& study, const StudyRun& run,
                                     const std::vector<PlannedPoint>& plan) {
  std::vector<PointResult> results;
  for (const PlannedPoint& planned : plan) {
    if (auto result = Read(study, run, planned)) results.push_back(std::move(*result));
  }
  return results;
}

}  // namespace leat::study

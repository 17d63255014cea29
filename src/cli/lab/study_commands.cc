// leat study: runs a job on a grid of workers, servers and settings, and says how many machines are worth it.
// leat advise: searches for the machines and the strategy of a job by simulation.
// leat calibrate: measures a job and a machine for the simulator.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/exit_status.h"
#include "base/text.h"
#include "base/threads/thread.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "job/job.h"
#include "lab/hosts/hosts.h"
#include "lab/sim/events/distribution.h"
#include "lab/study/analysis.h"
#include "lab/study/grid/report.h"
#include "lab/study/grid/run_study.h"
#include "lab/study/profile.h"
#include "lab/study/simulation.h"
#include "run/launcher/output/output_file.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "stream/bots/bots.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr double kMeasureBatch = 0.3;  // seconds for each size

struct StudyArguments {
  std::string file;
  study::StudyRun run;
  bool plan_only = false, json = false;
};

double AvailableMemory() {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;) {
    double kib = 0;
    if (word == "MemAvailable:" && in >> kib) return kib * 1024;
  }
  return 0;
}

// The events of the whole job; 0 if the stream is live. Errors of its files.
Result<double> EventsOf(const job::Job& job) {
  if (const auto* bots = job.stream->bots(); bots != nullptr) return static_cast<double>(bots->events);
  double events = 0;
  if (job.stream->files() == nullptr) return events;
  LEAT_ASSIGN_OR_RETURN(const auto source, job.stream->Open());
  LEAT_ASSIGN_OR_RETURN(const auto ranges, source->Ranges());
  for (const auto& range : ranges) events += static_cast<double>(range.end - range.begin);
  return events * job.stream->epochs;
}

double ModelBytes(const job::Job& job) {
  double bytes = 0;
  for (const auto& slice : job.Slices().slices)
    bytes += static_cast<double>(slice.elements()) * sizeof(float);
  return bytes;
}

study::JobFacts FactsOf(const study::StudyFile& study, const StudyArguments& a) {
  study::JobFacts facts;
  const std::unique_ptr<study::Profile> profile =
      a.run.profile.empty() ? nullptr : std::make_unique<study::Profile>(study::ReadProfile(a.run.profile));
  std::set<study::GridPoint> checked;
  for (const study::GridPoint& point : study::PointsOf(study)) {
    // A setting of the grid that the job does not allow is the user's mistake, and no point that fails.
    study::GridPoint any = point;
    any.workers = 1;
    any.link = 0;
    if (!checked.insert(any).second) continue;
    const job::Job job = job::Job::Load({.text = study::JobOf(study, point)}, {.data = a.run.data});
    if (facts.batch_s.contains(point.batch)) continue;
    if (profile != nullptr) {
      facts.batch_s[point.batch] = OrThrow(study::CostsOf(*profile, job, a.run.profile)).compute.mean;
    } else if (!study.compute.empty()) {
      facts.batch_s[point.batch] = sim::ParseDistribution(study.compute).mean;
    } else {
      facts.batch_s[point.batch] = study::MeasureBatch(job, Kernels(), point.batch, kMeasureBatch).compute_s;
    }
    const auto events = EventsOf(job);
    facts.events = events.ok() ? *events : 0;
    facts.model_bytes = ModelBytes(job);
    if (profile != nullptr) {
      facts.event_bytes = profile->input.event_bytes;
    } else if (facts.event_bytes == 0 && study.inputs != std::vector<std::string>{"unlimited"}) {
      study::InputProfile input;
      study::MeasureInput(job, kMeasureBatch, &input);
      facts.event_bytes = input.event_bytes;
    }
  }
  RefuseIf(facts.event_bytes == 0 && study.inputs != std::vector<std::string>{"unlimited"},
           a.file +
               ": an input's bandwidth needs the bytes of an event: the job's files, with --data, or a "
               "--profile that was measured with them");
  return facts;
}

int Study(StudyArguments a) {
  launcher::BlockSignals();
  study::StudyRun& run = a.run;
  RefuseIf(run.plan.computed && !run.plan.simulated, "--real is of simulated points: it needs --simulated");
  const study::StudyFile study = study::ReadStudy(a.file);
  if (run.folder.empty()) run.folder = "leat-studies/" + study.name;
  run.plan.cores = AllowedProcessors();
  run.plan.memory_bytes = AvailableMemory();
  const bool slow_links =
      std::ranges::any_of(study.links, [](const std::string& link) { return link != "unlimited"; });
  // Namespaces have to be entered before there are threads.
  if (slow_links && !run.plan.simulated && !a.plan_only) run.plan.on_hosts = hosts::EnterNamespaces().ok();
  run.facts = FactsOf(study, a);
  std::vector<study::PlannedPoint> plan = OrThrow(study::MakePlan(study, run.plan, run.facts));
  study::FindDone(study, run, &plan);
  std::FILE* const out = a.json ? stderr : stdout;
  std::fprintf(out, "%s", study::Render(study, plan, run.plan.cores).c_str());
  std::fflush(out);
  if (a.plan_only) {
    for (const study::PlannedPoint& point : plan) {
      std::fprintf(out, "  %-44s %-28s about %.0f s, %.0f MB%s\n", study::KeyOf(study, point.point).c_str(),
                   std::string(fields::NameOf(point.mode)).c_str(), point.seconds, point.memory_bytes / 1e6,
                   point.done ? ", done" : "");
    }
    return 0;
  }
  std::atomic<bool> interrupted = false;
  const launcher::SignalWatch signals([&interrupted](int) { interrupted = true; });
  run.interrupted = [&interrupted] { return interrupted.load(); };
  run.say = [out](const std::string& line) {
    std::fprintf(out, "%s\n", line.c_str());
    std::fflush(out);
  };
  const Status status = study::RunStudy(study, run, &plan);
  const std::vector<study::PointResult> results = study::ReadResults(study, run, plan);
  if (!results.empty()) {
    for (const auto& [file, text] : {std::pair("/results.csv", study::RenderCsv(study, results)),
                                     {"/results.json", study::RenderJson(study, results) + "\n"},
                                     {"/report.html", study::RenderHtml(study, results)}})
      ThrowIfError(launcher::WriteOutput(run.folder + file, text));
  }
  if (status.code() == Code::kAborted) {
    std::fprintf(stderr, "leat: interrupted; %zu results are in %s, the same command goes on\n",
                 results.size(), run.folder.c_str());
    return ExitStatus::kInterrupted;
  }
  ThrowIfError(status);
  std::fprintf(out, "%s  report: %s/report.html, results.csv, results.json\n",
               study::RenderText(study, results).c_str(), run.folder.c_str());
  if (a.json) std::printf("%s\n", study::RenderJson(study, results).c_str());
  const bool any = std::ranges::any_of(results, [](const auto& r) { return r.error.empty(); });
  return any ? 0 : 1;
}

struct AdviseArguments {
  std::string file;
  std::string data;
  std::string goal = "time";
  std::string deadline;
  std::string profile;
  std::string link = "1gbit";
  std::string latency = "100us";
  double worker_price = 1, server_price = 1;
  study::SearchSpace space{.most_workers = 32, .most_servers = 8};
  uint64_t events = 0;
  double seconds = 20;  // time limit of the search
};

int Advise(const AdviseArguments& a) {
  const double deadline = a.deadline.empty() ? 0 : Seconds(sim::ParseDuration(a.deadline));
  const job::Job job = job::Job::Load({.file = a.file}, {.data = a.data});
  const Config tree = Config::ParseFile(a.file);
  const auto counted = a.events > 0 ? Result<double>(static_cast<double>(a.events)) : EventsOf(job);
  if (!counted.ok())
    Throw({counted.status().code(), counted.status().message() + "; without the files, say --events"});
  const double events = *counted;
  RefuseIf(!(events > 0), a.file + ": a stream without an end; say --events");
  study::Costs costs;
  if (a.profile.empty()) {
    const study::BatchProfile batch = study::MeasureBatch(job, Kernels(), job.batch_size, 1);
    costs.compute = batch.compute();
    costs.first_gradient = batch.first_gradient;
  } else {
    costs = OrThrow(study::CostsOf(study::ReadProfile(a.profile), job, a.profile));
  }
  study::SimulationSettings settings;
  settings.link = {.bytes_per_s = sim::ParseBandwidth(a.link), .latency = sim::ParseDuration(a.latency)};
  const MonotonicClock clock;
  const Time until = clock.Now() + FromSeconds(a.seconds);
  std::map<study::Choice, study::SeriesPoint> seen;
  const auto predict = [&](const study::Choice& choice) -> Result<study::Prediction> {
    // The strategy of the job keeps its settings.
    const bool own = protocol::Name(job.strategy.kind) == choice.strategy;
    Config text = tree.Without("cluster").With(
        "cluster", Config::EmptyMap("advise").With("workers", int64_t{choice.workers}));
    if (choice.servers > 0)
      text = text.With("cluster", text.At("cluster").With("ps", int64_t{choice.servers}));
    if (!own) text = text.With("strategy", choice.strategy);
    try {
      const job::Job candidate = job::Job::Load({.text = text.ToYaml()}, {.data = a.data});
      // Long enough to be steady, and short enough for many choices.
      settings.steps = 4000;
      sim::ClusterOptions options = study::OptionsFor(candidate, costs, settings);
      study::ModelStream(candidate, settings, &options);
      const double batch = costs.compute.mean;
      const Duration span = FromSeconds(std::max(30 * batch * candidate.strategy.run(), 0.05));
      LEAT_ASSIGN_OR_RETURN(const double speed, study::SimulatedSpeed(options, span / 4, span));
      seen[choice] = {.workers = choice.workers, .events_per_s = speed};
      const double seconds = events / speed;
      const double per_hour = a.worker_price * choice.workers + a.server_price * choice.servers;
      return study::Prediction{seconds, per_hour * seconds / 3600};
    } catch (const std::invalid_argument& e) {
      return Status(Code::kInvalidArgument, e.what());
    }
  };
  study::SearchSpace space = a.space;
  space.on_servers = {"async", "sync"};
  const std::string own(protocol::Name(job.strategy.kind));
  if (own != "allreduce" && std::ranges::find(space.on_servers, own) == space.on_servers.end())
    space.on_servers.push_back(own);
  const study::Goal goal = a.goal == "cost" ? study::Goal::kCost : study::Goal::kTime;
  const study::Advice advice =
      study::Search(space, goal, deadline, predict, [&] { return clock.Now() >= until; });
  std::string reason;
  if (advice.best) {
    const auto& best = seen[advice.best->choice];
    const double ideal = 1 / costs.compute.mean * job.batch_size * best.workers;
    reason = Formatted("workers compute for %.0f %% of the time with links of %s; learning is not simulated",
                       100 * std::min(1.0, best.events_per_s / ideal), a.link.c_str());
  }
  std::printf("%s", study::Render(advice, goal, deadline, reason).c_str());
  return advice.best ? 0 : 1;
}

struct CalibrateArguments {
  job::JobSource source;
  job::JobOverrides overrides;
  study::CalibrationOptions options;
  std::string out;
  std::string listen;
  SecurityOptions security;
};

void Print(const study::Profile& profile, std::FILE* out) {
  std::fprintf(out, "job '%s' on %u cores of %s\n", profile.job.c_str(), profile.cores,
               profile.machine.c_str());
  for (const study::BatchProfile& batch : profile.batches) {
    const auto& quantiles = batch.quantiles_s;
    std::fprintf(out,
                 "  %-22s%.3f ms (median %.3f, from %.3f to %.3f), the first gradient after %.0f%% of it\n",
                 ("batch of " + std::to_string(batch.size)).c_str(), batch.compute_s * 1e3,
                 quantiles[quantiles.size() / 2] * 1e3, quantiles.front() * 1e3, quantiles.back() * 1e3,
                 batch.first_gradient * 100);
  }
  const auto cost = [out](const char* name, const study::CostProfile& costs) {
    std::fprintf(out, "  %-22s%.1f us and %.3f ns/byte\n", name, costs.message_s * 1e6, costs.byte_s * 1e9);
  };
  cost("a push to a server", profile.server);
  cost("a message of a worker", profile.worker);
  if (profile.input.decode_s > 0) {
    std::fprintf(out, "  %-22s%.2f us, %.0f bytes\n", "decoding an event", profile.input.decode_s * 1e6,
                 profile.input.event_bytes);
  } else {
    std::fprintf(out, "  %-22snot measured: this host cannot read the job's input now\n",
                 "decoding an event");
  }
  if (profile.link) {
    std::fprintf(out, "  %-22s%.1f MB/s in each direction, %.0f us one way\n",
                 ("link to " + profile.link->to).c_str(), profile.link->bytes_per_s / 1e6,
                 profile.link->latency_s * 1e6);
  }
}

int Calibrate(CalibrateArguments a) {
  launcher::BlockSignals();
  const bool link = !a.options.to.empty() || !a.listen.empty();
  if (link) {
    a.options.token = OrThrow(launcher::UserToken());
    a.options.security = a.security.Read();
  }
  if (!a.listen.empty()) {
    RefuseIf(!a.source.file.empty(), "--listen answers another host; it takes no job");
    ThrowIfError(launcher::CheckListen(a.options.security, a.listen));
    ThrowIfError(
        study::ServeLinkTest(a.listen, a.options.token, a.options.security, [](const std::string& address) {
          std::printf("serves on %s (end with Ctrl-C)\n", address.c_str());
          std::fflush(stdout);
        }));
    return 0;
  }
  RefuseIf(a.source.file.empty(), "calibrate needs a job file, or --listen");
  RefuseIf(a.out.empty(), "calibrate needs --out FILE");
  const job::Job job = job::Job::Load(a.source, a.overrides);
  a.options.kernels = Kernels();
  launcher::OutputFile file = OrThrow(launcher::OutputFile::Open(a.out));
  const study::Profile profile = OrThrow(study::Calibrate(job, a.options));
  Status written = file.Write(study::ToJson(profile) + "\n");
  if (written.ok()) written = file.Close();
  ThrowIfError(written);
  Print(profile, launcher::MessagesBeside(file));
  return 0;
}

}  // namespace

void AddStudyCommand(CLI::App& app, int* result) {
  const auto [command, a] =
      AddCommand(app, result, "study",
                 "run a job on a grid of workers, servers and settings, and find the sweet spot", Study);
  command->add_option("study", a->file, "study file (YAML)")->required();
  command->add_option("--out", a->run.folder,
                      "folder of the results (default: leat-studies/NAME); a study there goes on");
  AddData(command, &a->run.data);
  command->add_option("--profile", a->run.profile,
                      "times that leat calibrate has measured, for simulated points");
  command->add_flag("--simulated", a->run.plan.simulated,
                    "simulate all points, also those that this machine has the cores for");
  command->add_flag("--real", a->run.plan.computed,
                    "with --simulated: points train the job's model on its files");
  command->add_flag("--oversubscribe", a->run.plan.oversubscribe,
                    "real points with more processes than cores; simulated ones share this machine's cores");
  command->add_flag("--plan", a->plan_only, "only show the points, and how long they take");
  command->add_flag("--json", a->json,
                    "print the results as one JSON object on stdout, and the progress on stderr");
}

void AddAdviseCommand(CLI::App& app, int* result) {
  const auto [command, a] =
      AddCommand(app, result, "advise", "recommend machines and a strategy for a job, by simulation", Advise);
  command->add_option("job", a->file, "job file (YAML)")->required();
  command->add_option("--goal", a->goal, "what is least: time or cost")
      ->check(CLI::IsMember({"time", "cost"}))
      ->capture_default_str();
  command->add_option("--deadline", a->deadline, "for all events of the job: 90s, 10m, 2h")
      ->check(ValidIf(sim::ParseDuration));
  AddData(command, &a->data);
  command->add_option("--profile", a->profile,
                      "times that leat calibrate has measured (default: measured now)");
  command->add_option("--link", a->link, "bandwidth of each host, per direction")
      ->check(ValidIf(sim::ParseBandwidth))
      ->capture_default_str();
  command->add_option("--latency", a->latency, "one-way latency of each message")
      ->check(ValidIf(sim::ParseDuration))
      ->capture_default_str();
  AddNumber(command, "--worker-price", &a->worker_price, "of a worker's host for an hour", 0, 1e6);
  AddNumber(command, "--ps-price", &a->server_price, "of a server's host for an hour", 0, 1e6);
  AddNumber(command, "--max-workers", &a->space.most_workers, "the most workers", 1, 10'000);
  AddNumber(command, "--max-ps", &a->space.most_servers, "the most servers", 1, 1000);
  command->add_option("--events", a->events, "of a stream without an end, or whose files are not here")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  AddNumber(command, "--seconds", &a->seconds, "the most time of the search", 1, 3600);
}

void AddCalibrateCommand(CLI::App& app, int* result) {
  const auto [command, a] = AddCommand(
      app, result, "calibrate",
      "measure a job's batches and messages on this machine, for simulate --profile, study and advise",
      Calibrate);
  command->add_option("job", a->source.file, "job file (YAML)");
  command->add_option("--out", a->out, "file that the profile is written to (JSON)");
  AddData(command, &a->overrides.data);
  AddNumber(command, "--batch", &a->options.batches,
            "sizes of batches (default: the job's); times between are interpolated", 1u, 1'000'000u);
  AddNumber(command, "--seconds", &a->options.seconds,
            "time for each size of batches; messages take a quarter of it", 0.01, 600.0);
  command->add_option(
      "--to", a->options.to,
      "also measure the link to another host: the address on which leat calibrate --listen answers there");
  command->add_option("--listen", a->listen,
                      "answer the calibration of another host on this address, HOST:PORT");
  AddSecurity(command, &a->security);
}

}  // namespace leat

// leat simulate: runs a job on a simulated cluster, in virtual time.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/exit_status.h"
#include "base/json/text.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "job/input/input_files.h"
#include "job/job.h"
#include "job/model.h"
#include "lab/sim/cluster/cluster.h"
#include "lab/sim/events/distribution.h"
#include "lab/sim/events/memory.h"
#include "lab/study/analysis.h"
#include "lab/study/profile.h"
#include "lab/study/simulation.h"
#include "protocol/parameters.h"
#include "protocol/placement.h"
#include "run/roles/input/split_loader.h"
#include "show/report/display.h"
#include "show/report/progress.h"
#include "stream/source.h"
#include "train/step/trainer.h"

namespace leat {
namespace {

using Json = nlohmann::ordered_json;

struct SimulateArguments {
  job::JobSource source;
  job::JobOverrides overrides;
  std::string link = "1gbit";
  std::string latency = "100us";
  std::string burst = "0b";
  std::string compute;
  std::string slow;
  std::string profile;
  std::string cluster;
  std::string target;
  uint64_t steps = 0;
  uint64_t events = 0;
  uint64_t seed = 1;
  bool real = false;
  bool json = false;
  bool faults = false;
  uint64_t seeds = 1000;
};

template <class T>
T WorkloadOrThrow(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return std::move(result).value();
}

void WorkloadOrThrow(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

// The workers of a simulated cluster compute the job's model on the job's data (--real). Each worker has its
// own parameters, plans and scores, as in its own process. All workers share decoded splits. An error that
// ends a worker in `leat train` (unreadable data, too many dead letters) is thrown as std::runtime_error. Not
// thread-safe.
class RealWorkload final : public sim::Workload {
 public:
  // `job` must outlive this, and its files must be readable (job::CheckReadable).
  explicit RealWorkload(const job::Job& job) : RealWorkload(job, WorkloadOrThrow(job.stream->Open())) {}
  std::unique_ptr<sim::WorkerMemory> Join() override { return std::make_unique<Memory>(*this); }

  // The partitions of the job's stream.
  const std::vector<stream::PartitionRange>& ranges() const { return ranges_; }

 private:
  class Memory final : public sim::WorkerMemory {
   public:
    explicit Memory(RealWorkload& all)
        : all_(all),
          parameters_(all.job_.Slices()),
          trainer_(*all.job_.model, parameters_, all.job_.Plan(job::WithPrecision(all.job_, Kernels())),
                   all.job_.optimizer.clipping),
          runs_(trainer_, parameters_, all.job_.strategy, all.job_.optimizer),
          input_errors_(all.job_, Duration(0), &progress_),
          versions_(parameters_.table().slices.size(), 0) {}

    sim::Trained Compute(const protocol::Lease& lease, uint32_t batch, bool first) override {
      const protocol::Cut& cut = lease.cut;
      const auto split = all_.Split(cut);
      if (taken_in_.insert(lease.id).second) WorkloadOrThrow(input_errors_.OnSplit(*split));
      if (first) version_ = *std::ranges::min_element(versions_);
      const bool last = batch % cut.run + 1 == cut.BatchesOf(batch / cut.run);
      const step::Rows rows{
          .features = split->rows.features, .labels = split->rows.labels, .truth = split->rows.truth};
      const auto step = runs_.Step(rows, split->Batch(batch), cut.batch_size, roles::RandomSeedOf(cut, batch),
                                   {.first = first, .last = last, .version = version_});
      pushed_.reset();
      sim::Trained trained{{protocol::Disposition::kGradient, step.events}, step.loss_sum, step.correct};
      if (step.events == 0) trained.outcome.disposition = protocol::Disposition::kEmpty;
      if (!step.finite) trained.outcome.disposition = protocol::Disposition::kRejected;
      return trained;
    }

    std::shared_ptr<const std::vector<float>> Pushed() override {
      if (!pushed_) {
        std::vector<float> all;
        for (uint32_t i = 0; i < versions_.size(); ++i) {
          const auto gradient = parameters_.gradients(SliceId(i));
          all.insert(all.end(), gradient.begin(), gradient.end());
        }
        pushed_ = std::make_shared<const std::vector<float>>(std::move(all));
      }
      return pushed_;
    }

    void TakeValues(SliceId slice, uint64_t version, std::span<const float> values) override {
      std::ranges::copy(values, parameters_.values(slice).begin());
      versions_[slice.value] = version;
    }

    void FillProgress(protocol::WorkerProgress* progress) const override {
      progress->dead_letters = progress_.dead_letters;
      progress->last_dead_letter = progress_.last_dead_letter;
      if (all_.job_.model->task() == nn::Task::kBinary) progress->scores = trainer_.scores_seen().Encode();
      if (all_.job_.schema.has_truth()) progress->true_scores = trainer_.truths_seen().Encode();
    }

   private:
    RealWorkload& all_;
    protocol::Parameters parameters_;
    step::Trainer trainer_;
    step::RunTrainer runs_;
    protocol::WorkerProgress progress_;  // written by `input_errors_`
    roles::InputErrors input_errors_;
    std::vector<uint64_t> versions_;  // version of the values, by slice
    uint64_t version_ = 0;            // version at the start of the run
    std::set<uint64_t> taken_in_;     // leases whose splits are counted in `input_errors_`
    std::shared_ptr<const std::vector<float>> pushed_;
  };

  RealWorkload(const job::Job& job, std::unique_ptr<stream::Source> source)
      : job_(job), ranges_(WorkloadOrThrow(source->Ranges())), reader_(std::move(source), job.schema) {}

  // Finds or decodes a split. The cache holds the splits in use and a few more, the last used first, because
  // decoding a split takes as long as several of its batches.
  std::shared_ptr<const roles::PreparedSplit> Split(const protocol::Cut& cut) {
    const auto at = std::ranges::find_if(splits_, [&](const auto& split) { return split->lease.cut == cut; });
    if (at != splits_.end()) {
      splits_.splice(splits_.begin(), splits_, at);
      return splits_.front();
    }
    auto split = std::make_shared<roles::PreparedSplit>();
    split->lease.cut = cut;
    WorkloadOrThrow(reader_.Read(split.get()));
    splits_.push_front(std::move(split));
    if (splits_.size() > std::max(job_.workers, job_.strategy.total_lanes()) + 2) splits_.pop_back();
    return splits_.front();
  }

  const job::Job& job_;
  std::vector<stream::PartitionRange> ranges_;
  roles::SplitReader reader_;
  std::list<std::shared_ptr<const roles::PreparedSplit>> splits_;
};

// Parses --slow: "1:10" is one worker that is ten times slower. Returns factors on the compute time of the
// first workers.
std::vector<double> Slowness(const std::string& text, uint32_t workers) {
  if (text.empty()) return {};
  std::string_view rest = text;
  const auto count = ToNumber<uint32_t>(TakeUntil(":", &rest));
  const auto factor = ToNumber<double>(rest);
  RefuseIf(!count || !factor || *count == 0 || *count > workers || !(*factor > 0 && *factor <= 1000),
           "--slow is '" + text + "'; must be WORKERS:FACTOR, such as 1:10, with 1 to " +
               std::to_string(workers) + " workers and a factor of at most 1000");
  return std::vector<double>(*count, *factor);
}

// The time of each batch, and what messages cost.
study::Costs CostsFor(const job::Job& job, const SimulateArguments& a) {
  study::Costs costs;
  if (!a.profile.empty()) {
    costs = OrThrow(study::CostsOf(study::ReadProfile(a.profile), job, a.profile));
  } else if (a.compute.empty()) {
    const auto& quantiles = study::MeasureBatch(job, Kernels(), job.batch_size, 0.5).quantiles_s;
    costs.compute = {.mean = quantiles[quantiles.size() / 2]};
  }
  if (!a.compute.empty()) costs.compute = sim::ParseDistribution(a.compute);
  return costs;
}

study::SimulationSettings SettingsFor(const job::Job& job, const SimulateArguments& a) {
  study::SimulationSettings settings{.seed = a.seed, .steps = a.steps, .events = a.events};
  settings.link = {.bytes_per_s = sim::ParseBandwidth(a.link),
                   .latency = sim::ParseDuration(a.latency),
                   .burst = sim::ParseBytes(a.burst)};
  settings.slowness = Slowness(a.slow, job.workers);
  if (!a.cluster.empty()) settings.cluster = study::ParseCluster(Config::ParseFile(a.cluster));
  return settings;
}

sim::ClusterOptions OptionsFor(const job::Job& job, const SimulateArguments& a) {
  const study::Costs costs = CostsFor(job, a);
  const study::SimulationSettings settings = SettingsFor(job, a);
  // Limits: idle virtual time costs real time too.
  RefuseIf(costs.compute.mean > 60, "--compute is '" + a.compute + "'; the mean must be at most 60s");
  RefuseIf(settings.link.latency > std::chrono::seconds(10),
           "--latency is '" + a.latency + "'; must be at most 10s");
  sim::ClusterOptions options = study::OptionsFor(job, costs, settings);
  if (!a.real) study::ModelStream(job, settings, &options);
  return options;
}

// Sets up --real: the workload trains the job's model, and the cluster's stream is the job's data.
std::unique_ptr<RealWorkload> ComputeForReal(const job::Job& job, sim::ClusterOptions* options) {
  RefuseIf(job.stream->files() == nullptr,
           "--real needs a job that reads files (stream.files); this one reads " + job.stream->Describe());
  for (const std::string& warning : job::CheckReadable(job))
    std::fprintf(stderr, "leat: %s\n", warning.c_str());
  auto workload = std::make_unique<RealWorkload>(job);
  for (const auto& range : workload->ranges()) {
    LEAT_CHECK(range.partition == options->stream.partitions.size());
    options->stream.partitions.push_back({range.begin, range.end - range.begin});
  }
  return workload;
}

study::Target Wanted(const job::Job& job, const SimulateArguments& a) {
  study::Target target = study::ParseTarget(a.target);
  target.window = job.metrics_window;
  return target;
}

// Evaluates the trained parameters on the job's test data, as `leat train` does.
void MeasureTrained(const job::Job& job, const sim::Cluster& cluster, Json* summary) {
  std::vector<float> values;
  if (!cluster.Saved(&values))
    throw std::runtime_error("the simulated job has left no checkpoint to evaluate");
  protocol::Parameters parameters(job.Slices());
  auto at = values.begin();
  for (uint32_t i = 0; i < parameters.table().slices.size(); ++i) {
    const auto slice = parameters.values(SliceId(i));
    std::copy_n(at, slice.size(), slice.begin());
    at += static_cast<std::ptrdiff_t>(slice.size());
  }
  const auto evaluation = job::Evaluate(job, job::WithPrecision(job, Kernels()), parameters);
  if (!evaluation.ok()) throw std::runtime_error("evaluation: " + evaluation.status().ToString());
  job::AddToSummary(*evaluation, summary);
}

// The job's status, as `leat train` shows it. Modelled steps have no loss.
report::JobStatus Told(const report::Progress& progress, const sim::Cluster& cluster, bool real) {
  report::JobStatus told = progress.Show(cluster.now(), cluster.status(), 0);
  if (real) return told;
  told.quality.loss = told.quality.auc = NAN;
  if (told.quality.accuracy) told.quality.accuracy = NAN;
  return told;
}

// Prints the traffic of each server, of the busiest ones if there are many.
void PrintServers(const report::JobStatus& status, double seconds, std::FILE* out) {
  constexpr size_t kMax = 32;
  std::vector<report::MemberStatus> servers;
  for (const report::MemberStatus& member : status.members) {
    if (member.name.role == "ps" && member.server) servers.push_back(member);
  }
  if (servers.size() > kMax) {
    std::ranges::stable_sort(servers, std::ranges::greater(), &report::MemberStatus::bytes_in);
    std::fprintf(out, "  the %zu servers of %zu with the most incoming traffic:\n", kMax, servers.size());
    servers.resize(kMax);
  }
  for (const report::MemberStatus& m : servers) {
    std::fprintf(out, "  %-22s%s held (%.1f%%), %.1f MB/s in, %.1f MB/s out\n", m.name.Text().c_str(),
                 protocol::BytesText(m.server->bytes_held).c_str(), 100 * m.server->share,
                 static_cast<double>(*m.bytes_in) / 1e6 / seconds,
                 static_cast<double>(*m.bytes_out) / 1e6 / seconds);
  }
}

// A cluster's file says how many workers and servers there are, unless the command line does.
job::Job LoadJob(const SimulateArguments& a) {
  job::JobOverrides overrides = a.overrides;
  if (!a.cluster.empty()) {
    const study::ClusterFile cluster = study::ParseCluster(Config::ParseFile(a.cluster));
    if (overrides.workers == 0) overrides.workers = cluster.workers();
    if (overrides.servers == 0) overrides.servers = cluster.servers();
  }
  return job::Job::Load(a.source, overrides);
}

int Simulate(const SimulateArguments& a) {
  if (a.faults) return SimulateFaults(a.seed, a.seeds, a.json);
  RefuseIf(a.source.file.empty(), "simulate needs a job file, or --faults");
  // The simulator jumps between thousands of simulated processes, so page walks are costly.
  if (!a.real) sim::HeapOfHugePages(size_t{4} << 30);
  const job::Job job = LoadJob(a);
  sim::ClusterOptions options = OptionsFor(job, a);
  std::unique_ptr<sim::Workload> workload;
  if (a.real) {
    workload = ComputeForReal(job, &options);
  } else {
    workload = std::make_unique<sim::ModelledWorkload>();
  }
  report::Progress progress(
      {.job = job.name,
       .task = job.model->task(),
       .labels = job.model->labels(),
       .window = job.metrics_window,
       .strategy = std::string(protocol::Name(job.strategy.kind)),
       .warnings = job.servers > 0 ? job.PlacementPlan().warnings : std::vector<std::string>(),
       .directory = "",
       .table = options.servers > 0 ? std::make_shared<const protocol::SliceTable>(job.Slices()) : nullptr,
       .optimizer = job.optimizer});
  report::Display display(a.json ? stderr : stdout);
  const auto machine_s = [clock = MonotonicClock()] { return Seconds(clock.Now()); };
  const double start = machine_s();
  double shown = start;
  sim::Hooks hooks;
  hooks.on_join = [&](Time now, NodeId node, const protocol::JoinRequest& request) {
    progress.OnJoin(now, node, request);
  };
  hooks.on_request = [&](Time now, const protocol::ControlRequest& request) {
    if (const auto* worker = std::get_if<protocol::WorkerHeartbeat>(&request)) {
      progress.OnWorker(now, worker->node, worker->progress);
      if (worker->member_report) progress.OnMemberReport(worker->node, *worker->member_report);
    } else if (const auto* server = std::get_if<protocol::ServerHeartbeat>(&request)) {
      progress.OnServer(now, server->node, server->progress);
      for (const auto& ledger : server->ledgers) progress.OnUpdates(ledger.version);
    }
  };
  hooks.watch_every = options.heartbeat_interval;
  study::TargetWatch target(a.target.empty() ? std::nullopt : std::optional(Wanted(job, a)));
  study::ThroughputMeter speed(Duration(0));
  hooks.watch = [&](const sim::Cluster& cluster) {
    progress.OnStatus(cluster.now(), cluster.status());
    speed.Add(cluster.now(), cluster.status().events);
    if (!a.target.empty() && !target.reached()) target.OnStatus(Told(progress, cluster, a.real));
    if (const double now = machine_s(); now - shown >= 0.5) {
      shown = now;
      display.Show(Told(progress, cluster, a.real));
    }
    return true;
  };
  sim::Cluster cluster(options, *workload, hooks);
  const sim::ClusterResult result = cluster.Run();
  const double real_s = machine_s() - start;
  display.Finish();
  // A job that fails, for example because training diverges, is the user's error; other violations are bugs.
  if (!result.failure.ok()) {
    throw std::runtime_error("the job failed after " + std::to_string(Seconds(result.took)) +
                             " s of virtual time: " + result.failure.message());
  }
  if (!result.error.empty()) throw std::runtime_error(result.error);

  progress.OnStatus(cluster.now(), cluster.status());
  report::JobStatus told = Told(progress, cluster, a.real);
  told.wall_s = Seconds(result.took);
  Json summary = ParsedOrderedJson(report::ToJson(told));
  // The same entries as in the summary of `leat train`.
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  summary["peak_rss_mb"]["simulate"] = static_cast<double>(used.ru_maxrss) * 1024 / 1e6;
  summary["stopped"] = false;
  if (job.evaluate && a.real) {
    MeasureTrained(job, cluster, &summary);
  } else if (job.evaluate) {
    summary["test_rows"] = 0;
    summary["test_accuracy"] = summary["test_loss"] = nullptr;
  }
  summary["real_s"] = real_s;
  summary["messages"] = result.messages;
  summary["messages_per_s"] = static_cast<double>(result.messages) / real_s;
  summary["compute_s"] = options.compute.mean;
  summary["deaths"] = result.deaths;
  if (speed.rate()) summary["steady_events_per_s"] = *speed.rate();
  if (!a.target.empty()) {
    const auto& reached = target.reached();
    summary["target"] = {{"target", a.target},
                         {"reached_s", reached ? Json(reached->seconds) : Json(nullptr)},
                         {"events", reached ? Json(reached->events) : Json(nullptr)}};
  }
  std::FILE* out = a.json ? stderr : stdout;
  std::fprintf(out, "%s", report::RenderSummary(report::StatusFromJson(JsonText(summary)).value()).c_str());
  std::fprintf(out, "  %-22s%.1f s here, %.0f messages/s\n", "simulated in", real_s,
               static_cast<double>(result.messages) / real_s);
  PrintServers(told, Seconds(result.took), out);
  if (a.json) std::printf("%s\n", JsonText(summary).c_str());
  return 0;
}

}  // namespace

void AddSimulateCommand(CLI::App& app, int* result) {
  const auto [command, a] =
      AddCommand(app, result, "simulate", "run a job on a simulated cluster, in virtual time", Simulate);
  auto* job = command->add_option("job", a->source.file, "job file (YAML); not with --faults");
  AddData(command, &a->overrides.data);
  AddNumber(command, "--workers", &a->overrides.workers, "number of workers (default: the job's)", 1, 10'000);
  AddNumber(command, "--ps", &a->overrides.servers, "number of parameter servers (default: the job's)", 1,
            1000);
  command->add_option("--link", a->link, "bandwidth of each host, per direction: 100mbit, 1gbit, unlimited")
      ->check(ValidIf(sim::ParseBandwidth))
      ->capture_default_str();
  command->add_option("--latency", a->latency, "one-way latency of each message: 100us, 1ms")
      ->check(ValidIf(sim::ParseDuration))
      ->capture_default_str();
  command
      ->add_option("--burst", a->burst,
                   "bytes that a link lets pass at once after a pause, as the token bucket of tc-tbf: 512kb")
      ->check(ValidIf(sim::ParseBytes))
      ->capture_default_str();
  command->add_option("--profile", a->profile,
                      "times of batches and messages, as leat calibrate has measured them for this job");
  command
      ->add_option(
          "--cluster", a->cluster,
          "file (YAML) with the hosts, their links, zones, input and deaths, instead of --link, --latency "
          "and --burst")
      ->excludes("--link")
      ->excludes("--latency")
      ->excludes("--burst");
  command->add_option("--compute", a->compute,
                      "compute time of a batch: 5ms, normal:MEAN,DEVIATION, lognormal:MEDIAN,SIGMA or "
                      "exponential:MEAN (default: measured on this machine)");
  command->add_option("--slow", a->slow, "WORKERS:FACTOR; 1:10 makes one worker ten times slower");
  auto* steps = AddNumber(command, "--steps", &a->steps, "batches per worker (default: 100)", 1, 10'000'000);
  auto* events =
      command->add_option("--events", a->events, "length of the stream in events, instead of --steps")
          ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000'000}))
          ->excludes(steps);
  command->add_flag("--real", a->real, "train the job's model on its files; without it, steps only take time")
      ->excludes(steps)
      ->excludes(events);
  command
      ->add_option("--target", a->target,
                   "with --real: accuracy=VALUE, auc=VALUE or loss=VALUE, over the job's `metrics: window`; "
                   "the summary "
                   "says when it was reached")
      ->needs("--real");
  command->add_option("--seed", a->seed, "random seed of the simulation; with --faults, the first one")
      ->capture_default_str();
  // Jobs of its own, so nothing describes another one.
  auto* faults =
      command->add_flag("--faults", a->faults,
                        "run many small jobs that count events, with random members, strategies and faults");
  for (CLI::Option* option : command->get_options()) {
    const std::string name = option->get_name();
    if (option == job || (name != "--help" && name != "--seed" && name != "--faults"))
      faults->excludes(option);
  }
  AddNumber(command, "--seeds", &a->seeds,
            "with --faults: number of jobs, one for each seed from --seed on (default: 1000)", 1,
            1'000'000'000)
      ->needs(faults);
  command->add_flag("--json", a->json,
                    "print the result as one JSON object on stdout, and the progress on stderr");
}

}  // namespace leat

#include "lab/study/grid/study.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "base/fields/json.h"
#include "base/rng.h"
#include "base/text.h"
#include "lab/sim/events/distribution.h"

namespace leat::study {

namespace {

constexpr size_t kMostPoints = 10'000;
constexpr int64_t kMostGridWorkers = 10'000, kMostGridServers = 1000;

std::vector<uint32_t> Numbers(const Config& grid, std::string_view key, uint32_t fallback, int64_t most) {
  if (!grid.Has(key)) return {fallback};
  const Config list = grid.At(key);
  std::vector<uint32_t> numbers;
  if (!list.IsList()) list.Fail(std::string(key) + " must be a list of numbers");
  for (size_t i = 0; i < list.size(); ++i) {
    const int64_t number = list[i].Integer();
    if (number < 1 || number > most)
      list[i].Fail(std::string(key) + " is " + std::to_string(number) + "; must be between 1 and " +
                   std::to_string(most));
    numbers.push_back(static_cast<uint32_t>(number));
  }
  if (numbers.empty()) list.Fail(std::string(key) + " is empty");
  std::ranges::sort(numbers);
  const auto twice = std::ranges::unique(numbers);
  numbers.erase(twice.begin(), twice.end());
  return numbers;
}

std::vector<Config> ListOf(const Config& grid, std::string_view key, std::string_view of) {
  const Config list = grid.At(key);
  if (!list.IsList() || list.size() == 0) list.Fail(std::string(key) + " must be a list" + std::string(of));
  std::vector<Config> all;
  for (size_t i = 0; i < list.size(); ++i) all.push_back(list[i]);
  return all;
}

// A text of the simulator that has to be right before anything starts.
template <class Parse>
std::string Checked(const Config& value, const Parse& parse) {
  std::string text = value.String();
  try {
    static_cast<void>(parse(text));
  } catch (const std::invalid_argument& e) {
    value.Fail(e.what());
  }
  return text;
}

std::vector<std::string> Bandwidths(const Config& grid, std::string_view key) {
  if (!grid.Has(key)) return {"unlimited"};
  std::vector<std::string> bandwidths;
  for (const Config& one : ListOf(grid, key, " of bandwidths"))
    bandwidths.push_back(Checked(one, sim::ParseBandwidth));
  return bandwidths;
}

std::string TypeOf(const Config& setting) {
  return setting.IsMap() ? setting.At("type").String() : setting.String();
}

Config Section(const Config& job, std::string_view key) {
  return job.Has(key) ? job.At(key) : Config::EmptyMap("study");
}

// A text without what file names cannot have.
std::string FileName(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') c = '_';
  }
  return text;
}

// The whole setting in one line.
std::string Flat(const Config& setting) {
  if (!setting.IsMap()) return setting.String();
  std::string text = TypeOf(setting);
  for (const std::string& key : setting.Keys()) {
    const Config value = setting.At(key);
    if (key != "type" && value.IsScalar()) text += " " + key + " " + value.String();
  }
  return text;
}

std::string TextAt(const std::vector<Config>& all, size_t index) {
  const std::string type = TypeOf(all[index]);
  const auto same = std::ranges::count_if(all, [&](const Config& one) { return TypeOf(one) == type; });
  return same > 1 ? Flat(all[index]) : type;
}

constexpr double kStart = 3;       // seconds to start the processes of a real point, and to end them
constexpr double kProcess = 40e6;  // bytes of a process without its job
constexpr double kMessages = 1e6;  // messages that are simulated in a second
constexpr double kCopies = 5;      // copies of the parameters in a process: values, gradients, slots, buffers

std::string PlanTimeText(double seconds) {
  if (seconds < 90) return Formatted("%.0f s", seconds);
  return seconds < 5400 ? Formatted("%.0f min", seconds / 60) : Formatted("%.1f h", seconds / 3600);
}

Mode ModeOf(const StudyFile& study, const PlanOptions& options, const GridPoint& point) {
  const Mode simulated = options.computed || study.target ? Mode::kComputed : Mode::kModelled;
  if (options.simulated) return simulated;
  const bool fits = options.oversubscribe || point.workers + point.servers <= options.cores;
  const bool link = study.links[point.link] == "unlimited" || options.on_hosts;
  // Input and slow workers are only simulated.
  return fits && link && study.slow.empty() && study.inputs[point.input] == "unlimited" ? Mode::kReal
                                                                                        : simulated;
}

// Simulated points run one per core.
double SecondsOfPlan(const std::vector<PlannedPoint>& plan, uint32_t cores) {
  double real = 0, simulated = 0, longest = 0;
  for (const PlannedPoint& point : plan) {
    if (point.done) continue;
    (point.mode == Mode::kReal ? real : simulated) += point.seconds;
    if (point.mode != Mode::kReal) longest = std::max(longest, point.seconds);
  }
  return real + std::max(simulated / std::max(1u, cores), longest);
}

bool HasServers(const StudyFile& study, size_t strategy) {
  return TypeOf(study.strategies[strategy]) != "allreduce";
}

}  // namespace

StudyFile ParseStudy(const Config& config, const std::string& folder) {
  config.Allow({"name", "job", "grid", "events", "steps", "target", "gain", "prices", "latency", "burst",
                "compute", "slow"});
  StudyFile study;
  const std::string job = config.At("job").String();
  study.job_file = job.starts_with("/") ? job : (std::filesystem::path(folder) / job).string();
  study.job = Config::ParseFile(study.job_file);
  study.name = config.String("name", std::filesystem::path(job).stem().string());
  if (FileName(study.name) != study.name || study.name.empty())
    config.Fail("name is '" + study.name + "'; must consist of letters, digits, '-', '_' and '.'");
  const Config grid = config.At("grid");
  grid.Allow({"workers", "ps", "batch", "strategy", "placement", "link", "input"});
  const Config cluster = Section(study.job, "cluster");
  study.workers = Numbers(grid, "workers", 2, kMostGridWorkers);
  study.servers = Numbers(grid, "ps", static_cast<uint32_t>(cluster.Integer("ps", 1)), kMostGridServers);
  const auto batch = static_cast<uint32_t>(Section(study.job, "train").Integer("batch_size", 128));
  study.batches = Numbers(grid, "batch", batch, 1'000'000);
  const Config words = Config::Parse("{strategy: async, placement: greedy}", "study");
  const auto settings = [&](const char* key, const Config& job_part) {
    if (grid.Has(key)) return ListOf(grid, key, "");
    return std::vector{(job_part.Has(key) ? job_part : words).At(key)};
  };
  study.strategies = settings("strategy", study.job);
  study.placements = settings("placement", cluster);
  for (const Config& strategy : study.strategies) {
    const Config type = strategy.IsMap() ? strategy.At("type") : strategy;
    static_cast<void>(type.OneOf("strategy", {"async", "sync", "ssp", "downpour", "averaging", "allreduce"}));
  }
  study.links = Bandwidths(grid, "link");
  study.inputs = Bandwidths(grid, "input");
  study.events = static_cast<uint64_t>(config.Integer("events", 0, 1, int64_t{1} << 40));
  study.steps = static_cast<uint64_t>(config.Integer("steps", 0, 1, 10'000'000));
  if (study.events > 0 && study.steps > 0) config.At("steps").Fail("events and steps exclude each other");
  if (config.Has("target")) {
    const Config target = config.At("target");
    target.Allow({"accuracy", "auc", "loss", "window"});
    for (const char* figure : {"accuracy", "auc", "loss"}) {
      if (!target.Has(figure)) continue;
      if (study.target) target.At(figure).Fail("a target has one figure");
      study.target = Target{.figure = figure, .value = target.Number(figure, 0, 0, 1e9)};
    }
    if (!study.target) target.Fail("target needs accuracy, auc or loss");
    study.target->window = static_cast<uint64_t>(target.Integer("window", 5000, 1000, int64_t{1} << 30));
  }
  study.gain = config.Number("gain", 0.5, 0, 1);
  if (config.Has("prices")) {
    const Config prices = config.At("prices");
    prices.Allow({"worker", "ps"});
    study.worker_price = prices.Number("worker", 1, 0, 1e6);
    study.server_price = prices.Number("ps", 1, 0, 1e6);
  }
  if (config.Has("latency")) study.latency = Checked(config.At("latency"), sim::ParseDuration);
  if (config.Has("burst")) study.burst = Checked(config.At("burst"), sim::ParseBytes);
  if (config.Has("compute")) study.compute = Checked(config.At("compute"), sim::ParseDistribution);
  study.slow = config.String("slow", "");
  if (PointsOf(study).size() > kMostPoints)
    grid.Fail("the grid has more than " + std::to_string(kMostPoints) + " points");
  return study;
}

StudyFile ReadStudy(const std::string& path) {
  return ParseStudy(Config::ParseFile(path), std::filesystem::path(path).parent_path().string());
}

std::vector<GridPoint> PointsOf(const StudyFile& study) {
  std::vector<GridPoint> points;
  std::set<GridPoint> seen;
  const auto add = [&](GridPoint point) {
    if (!HasServers(study, point.strategy)) point.servers = 0, point.placement = 0;
    if (point.servers == 0 && point.workers < 2) return;  // nobody to reduce with
    if (seen.insert(point).second) points.push_back(point);
  };
  for (size_t strategy = 0; strategy < study.strategies.size(); ++strategy) {
    for (size_t link = 0; link < study.links.size(); ++link) {
      for (size_t input = 0; input < study.inputs.size(); ++input) {
        for (size_t placement = 0; placement < study.placements.size(); ++placement) {
          for (const uint32_t batch : study.batches) {
            for (const uint32_t servers : study.servers) {
              for (const uint32_t workers : study.workers)
                add({workers, servers, batch, strategy, placement, link, input});
            }
          }
        }
      }
    }
  }
  return points;
}

std::string StrategyText(const StudyFile& study, size_t strategy) {
  return TextAt(study.strategies, strategy);
}

std::string PlacementText(const StudyFile& study, size_t placement) {
  return TextAt(study.placements, placement);
}

std::string KeyOf(const StudyFile& study, const GridPoint& point) {
  std::string key = "w" + std::to_string(point.workers);
  if (point.servers > 0) key += "-ps" + std::to_string(point.servers);
  key += "-b" + std::to_string(point.batch) + "-" + StrategyText(study, point.strategy);
  if (point.servers > 0) key += "-" + PlacementText(study, point.placement);
  key += "-" + study.links[point.link];
  if (study.inputs[point.input] != "unlimited") key += "-input-" + study.inputs[point.input];
  return FileName(key);
}

std::string JobOf(const StudyFile& study, const GridPoint& point) {
  const Config& job = study.job;
  Config cluster = Section(job, "cluster").With("workers", int64_t{point.workers});
  if (point.servers > 0) {
    cluster = cluster.With("ps", int64_t{point.servers}).With("placement", study.placements[point.placement]);
    if (cluster.Has("max_ps"))
      cluster = cluster.With("max_ps", std::max(cluster.Integer("max_ps", 0), int64_t{point.servers}));
  } else {
    for (const char* of_servers : {"ps", "max_ps", "replicas", "placement"})
      cluster = cluster.Without(of_servers);
  }
  Config made = job.With("cluster", cluster)
                    .With("train", Section(job, "train").With("batch_size", int64_t{point.batch}))
                    .With("strategy", study.strategies[point.strategy]);
  if (study.target)
    made = made.With("metrics",
                     Section(job, "metrics").With("window", static_cast<int64_t>(study.target->window)));
  return made.ToYaml();
}

uint64_t HashOf(const StudyFile& study, const GridPoint& point, std::string_view mode) {
  uint64_t hash = HashName(JobOf(study, point));
  for (const std::string& text :
       {std::string(mode), study.links[point.link], study.latency, study.burst, study.compute, study.slow,
        study.target ? study.target->Text() : std::string(), std::to_string(study.events),
        std::to_string(study.steps), study.inputs[point.input]})
    hash = Mix(hash, HashName(text));
  return hash;
}

void Fill(const report::JobStatus& summary, double bytes_per_s, double model_bytes, bool stepped,
          PointResult* result) {
  const auto known = [](double x, double otherwise = 0) { return std::isfinite(x) ? x : otherwise; };
  result->events = static_cast<double>(summary.events);
  result->seconds = known(summary.training_s, known(summary.wall_s));
  if (result->events_per_s == 0) result->events_per_s = summary.events_per_s;
  if (result->events_per_s == 0 && result->seconds > 0)
    result->events_per_s = result->events / result->seconds;
  for (const auto& accuracy :
       {summary.test ? summary.test->test_accuracy : std::nullopt, summary.quality.accuracy}) {
    if (!result->accuracy && accuracy && std::isfinite(*accuracy)) result->accuracy = accuracy;
  }
  if (std::isfinite(summary.quality.loss)) result->loss = summary.quality.loss;
  Usage& usage = result->usage;
  usage.stepped = stepped;
  usage.staleness = known(summary.staleness_mean);
  const double seconds = result->seconds;
  if (!(seconds > 0)) return;
  std::vector<double> steps;
  double compute = 0, wait = 0, steps_done = 0;
  size_t workers = 0;
  result->server_bytes.clear();
  for (const report::MemberStatus& member : summary.members) {
    if (member.name.role == "ps") {
      const auto in = static_cast<double>(member.bytes_in.value_or(0)),
                 out = static_cast<double>(member.bytes_out.value_or(0));
      result->server_bytes.push_back(in + out);
      if (bytes_per_s > 0)
        usage.server_link = std::max(usage.server_link, std::max(in, out) / seconds / bytes_per_s);
      usage.server_cpu = std::max(usage.server_cpu, member.cpu_s.value_or(0) / seconds);
    } else if (member.name.role == "worker") {
      ++workers;
      if (!member.worker) continue;
      const double step = known(member.worker->step_ms) * 1e-3;
      const auto done = static_cast<double>(member.worker->progress.steps);
      if (step > 0) steps.push_back(step);
      compute += step * done;
      wait += member.worker->progress.wait_seconds;
      steps_done = std::max(steps_done, done);
    }
  }
  if (workers == 0) return;
  const double all = seconds * static_cast<double>(workers);
  usage.compute = std::min(1.0, compute / all);
  usage.wait = std::min(1.0, wait / all);
  usage.input_wait = std::max(0.0, 1 - usage.compute - usage.wait);
  if (!steps.empty()) {
    std::ranges::sort(steps);
    usage.slowest = steps.back() / steps[(steps.size() - 1) / 2];
  }
  if (result->server_bytes.empty() && bytes_per_s > 0) {
    const double n = static_cast<double>(workers);
    usage.member_link = steps_done * 2 * (n - 1) / n * model_bytes / seconds / bytes_per_s;
  }
}

double CostOf(const StudyFile& study, const PointResult& result) {
  const double per_hour =
      study.worker_price * result.point.workers + study.server_price * result.point.servers;
  return per_hour / 3600 * result.target_s.value_or(result.seconds);
}

nlohmann::ordered_json ToJson(const StudyFile& study, const PointResult& result) {
  using fields::Json;
  const GridPoint& point = result.point;
  Json json{{"key", KeyOf(study, point)},
            {"workers", point.workers},
            {"ps", point.servers},
            {"batch", point.batch},
            {"strategy", StrategyText(study, point.strategy)},
            {"placement", point.servers > 0 ? Json(PlacementText(study, point.placement)) : Json(nullptr)},
            {"link", study.links[point.link]},
            {"input", study.inputs[point.input]},
            {"mode", fields::NameOf(result.mode)}};
  if (!result.error.empty()) {
    json["error"] = result.error;
    return json;
  }
  json.update(fields::JsonWriter::Value(result));
  if (!study.target) {
    json.erase("target_s");
    json.erase("target_events");
  }
  return json;
}

Result<PointResult> ParseResult(std::string_view text, const GridPoint& point) {
  LEAT_ASSIGN_OR_RETURN(auto result, fields::FromAnyJson<PointResult>(text, "a result", Code::kDataLoss));
  result.point = point;
  if (result.error.empty() && !(result.seconds > 0))
    return Status(Code::kDataLoss, "a result without a time");
  return result;
}

Result<std::vector<PlannedPoint>> MakePlan(const StudyFile& study, const PlanOptions& options,
                                           const JobFacts& facts) {
  std::vector<PlannedPoint> plan;
  for (const GridPoint& point : PointsOf(study)) {
    PlannedPoint& planned = plan.emplace_back();
    planned.point = point;
    planned.mode = ModeOf(study, options, point);
    planned.events = facts.events;
    if (planned.mode == Mode::kModelled) {
      if (study.events > 0) planned.events = static_cast<double>(study.events);
      if (study.steps > 0) planned.events = static_cast<double>(study.steps) * point.workers * point.batch;
    }
    const double batches = planned.events / std::max(1u, point.batch);
    const auto measured = facts.batch_s.find(point.batch);
    const double computing = batches * (measured == facts.batch_s.end() ? 0.001 : measured->second);
    const double model = kCopies * facts.model_bytes;
    switch (planned.mode) {
      case Mode::kReal:
        planned.seconds = kStart + computing / std::min(point.workers, std::max(1u, options.cores));
        planned.memory_bytes = (1.0 + point.workers + point.servers) * (kProcess + model);
        if (planned.memory_bytes > options.memory_bytes) {
          return Status(Code::kInvalidArgument,
                        study.name + ": " + KeyOf(study, point) + " as real processes needs " +
                            Formatted("%.1f GB of memory, %.1f GB are available; see --simulated",
                                      planned.memory_bytes / 1e9, options.memory_bytes / 1e9));
        }
        break;
      case Mode::kComputed:
        planned.seconds = 1 + computing;
        planned.memory_bytes = kProcess + (point.workers + 1) * model;
        break;
      case Mode::kModelled: {
        // A ring sends to each member, twice.
        const double per_step = point.servers > 0 ? 2.0 * point.servers : 2.0 * (point.workers - 1);
        planned.seconds = 0.5 + batches * per_step / kMessages;
        planned.memory_bytes = kProcess + 2e5 * point.workers;
        break;
      }
    }
  }
  return plan;
}

double SecondsLeft(const std::vector<PlannedPoint>& plan, double estimated_done, double took,
                   uint32_t cores) {
  const double correction = estimated_done > 0 ? took / estimated_done : 1;
  return SecondsOfPlan(plan, cores) * correction;
}

std::string Render(const StudyFile& study, const std::vector<PlannedPoint>& plan, uint32_t cores) {
  size_t real = 0, simulated = 0, done = 0;
  double memory = 0, largest = 0;
  for (const PlannedPoint& point : plan) {
    (point.mode == Mode::kReal ? real : simulated)++;
    if (point.done) ++done;
    memory = std::max(memory, point.memory_bytes);
    if (point.mode != Mode::kReal) largest = std::max(largest, point.memory_bytes);
  }
  memory = std::max(memory, largest * cores);
  std::string all =
      Formatted("study '%s': %zu points, %zu real and %zu simulated; about %s, at most %.1f GB of memory\n",
                study.name.c_str(), plan.size(), real, simulated,
                PlanTimeText(SecondsOfPlan(plan, cores)).c_str(), memory / 1e9);
  if (done > 0) all += "  " + std::to_string(done) + " of them are done already\n";
  return all;
}

}  // namespace leat::study

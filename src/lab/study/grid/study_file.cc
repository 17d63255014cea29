#include "lab/study/grid/study_file.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "base/rng.h"
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

std::vector<Config> Settings(const Config& grid, std::string_view key, const Config& fallback) {
  if (!grid.Has(key)) return {fallback};
  const Config list = grid.At(key);
  if (!list.IsList() || list.size() == 0) list.Fail(std::string(key) + " must be a list");
  std::vector<Config> settings;
  for (size_t i = 0; i < list.size(); ++i) settings.push_back(list[i]);
  return settings;
}

std::vector<std::string> Bandwidths(const Config& grid, std::string_view key) {
  if (!grid.Has(key)) return {"unlimited"};
  const Config list = grid.At(key);
  if (!list.IsList() || list.size() == 0) list.Fail(std::string(key) + " must be a list of bandwidths");
  std::vector<std::string> bandwidths;
  for (size_t i = 0; i < list.size(); ++i) {
    try {
      static_cast<void>(sim::ParseBandwidth(list[i].String()));
    } catch (const std::invalid_argument& e) {
      list[i].Fail(e.what());
    }
    bandwidths.push_back(list[i].String());
  }
  return bandwidths;
}

std::string TypeOf(const Config& setting) {
  return setting.IsMap() ? setting.At("type").String() : setting.String();
}

// A text of the simulator that has to be right before anything starts.
template <class Parse>
std::string Checked(const Config& map, std::string_view key, std::string_view fallback, const Parse& parse) {
  if (!map.Has(key)) return std::string(fallback);
  const Config value = map.At(key);
  const std::string text = value.String();
  try {
    static_cast<void>(parse(text));
  } catch (const std::invalid_argument& e) {
    value.Fail(e.what());
  }
  return text;
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
  study.strategies =
      Settings(grid, "strategy", study.job.Has("strategy") ? study.job.At("strategy") : words.At("strategy"));
  study.placements =
      Settings(grid, "placement", cluster.Has("placement") ? cluster.At("placement") : words.At("placement"));
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
  study.latency = Checked(config, "latency", "100us", sim::ParseDuration);
  study.burst = Checked(config, "burst", "0b", sim::ParseBytes);
  study.compute = Checked(config, "compute", "", sim::ParseDistribution);
  study.slow = config.String("slow", "");
  if (PointsOf(study).size() > kMostPoints)
    grid.Fail("the grid has more than " + std::to_string(kMostPoints) + " points");
  return study;
}

StudyFile ReadStudy(const std::string& path) {
  return ParseStudy(Config::ParseFile(path), std::filesystem::path(path).parent_path().string());
}

bool HasServers(const StudyFile& study, size_t strategy) {
  return TypeOf(study.strategies[strategy]) != "allreduce";
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

}  // namespace leat::study

// A study: a job, and a grid of the settings that vary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/config.h"
#include "lab/study/measurement.h"

namespace leat::study {

struct GridPoint {
  uint32_t workers = 1;
  uint32_t servers = 1;  // 0: the strategy has none
  uint32_t batch = 0;
  size_t strategy = 0;   // index in StudyFile::strategies
  size_t placement = 0;  // index in StudyFile::placements
  size_t link = 0;
  size_t input = 0;
  friend auto operator<=>(const GridPoint&, const GridPoint&) = default;
};

struct StudyFile {
  std::string name;
  Config job = Config::EmptyMap("job");  // content of `job_file`
  std::string job_file;
  // The axes, each with at least one value.
  std::vector<uint32_t> workers, servers, batches;
  std::vector<Config> strategies, placements;  // as in the job; a word or a map
  std::vector<std::string> links, inputs;
  std::string latency = "100us", burst = "0b", compute;  // for simulated points; compute: empty: measured
  std::string slow;                                      // simulated points: --slow of leat simulate
  uint64_t steps = 0;                                    // batches of a worker in modelled points, or
  uint64_t events = 0;                                   // length of the whole job
  std::optional<Target> target;
  double gain = 0.5;                          // the least share that a worker of the sweet spot adds
  double worker_price = 1, server_price = 1;  // price of a host for an hour
};

// Reads a study's file and its job's. Throws std::invalid_argument with line and values.
StudyFile ReadStudy(const std::string& path);
StudyFile ParseStudy(const Config& config, const std::string& folder);

// All points, without those that differ only in what their strategy does not have. In the order in which
// series of workers are read: workers vary fastest.
std::vector<GridPoint> PointsOf(const StudyFile& study);

// "async", "ssp 3": the strategy's name, with its settings if several of the study have the name.
std::string StrategyText(const StudyFile& study, size_t strategy);
std::string PlacementText(const StudyFile& study, size_t placement);
// A name for files: "w4-ps2-b100-async-greedy-1gbit".
std::string KeyOf(const StudyFile& study, const GridPoint& point);
// Whether a strategy has servers.
bool HasServers(const StudyFile& study, size_t strategy);
// The job of the point, as YAML.
std::string JobOf(const StudyFile& study, const GridPoint& point);
// A hash of all that a result of the point depends on; `mode`: how it is run.
uint64_t HashOf(const StudyFile& study, const GridPoint& point, std::string_view mode);

}  // namespace leat::study

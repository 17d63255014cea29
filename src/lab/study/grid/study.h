// A study: a job, and a grid of the settings that vary. Its points: their plan, which says how each is run,
// how long it takes, and how much memory it needs; and their results, as they are kept in files and shown in
// reports.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/config.h"
#include "base/fields/fields.h"
#include "base/status.h"
#include "lab/study/analysis.h"

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
// The job of the point, as YAML.
std::string JobOf(const StudyFile& study, const GridPoint& point);
// A hash of all that a result of the point depends on; `mode`: how it is run.
uint64_t HashOf(const StudyFile& study, const GridPoint& point, std::string_view mode);

// ---- results

enum class Mode : uint8_t {
  kReal = 0,      // processes on this machine
  kModelled = 1,  // simulated, steps only take time
  kComputed = 2,  // simulated, with real arithmetic
};
LEAT_ENUM(Mode, (kReal, "real"), (kModelled, "simulated"), (kComputed, "simulated, real arithmetic"));

struct PointResult {
  GridPoint point;
  Mode mode = Mode::kReal;
  std::string error;  // empty: it has succeeded
  double events = 0;
  double events_per_s = 0;
  double seconds = 0;  // training time
  std::optional<double> target_s, target_events;
  double compute_s = 0;  // CPU time of all processes together
  double cost = 0;       // price of the hosts until the target is reached, or else for all of its events
  std::optional<double> accuracy, loss;  // at the end
  std::vector<double> server_bytes;      // received and sent, by server
  Usage usage;
};
LEAT_FIELDS(PointResult, (point, Unshown), (mode), (error, CutTo(1 << 16), Sparse), (events), (events_per_s),
            (seconds), (target_s, OrNull), (target_events, OrNull), (compute_s), (cost), (accuracy, OrNull),
            (loss, OrNull), (server_bytes, AtMost(1 << 20)), (usage));

// Sets the measurements of a point, from the summary of `leat train` or `leat simulate`. `bytes_per_s`: rate
// of a link, 0: unlimited. `model_bytes`: size of all parameters. Keeps a speed that `result` already has.
void Fill(const report::JobStatus& summary, double bytes_per_s, double model_bytes, bool stepped,
          PointResult* result);
// The price of the point's hosts, one for each process.
double CostOf(const StudyFile& study, const PointResult& result);

nlohmann::ordered_json ToJson(const StudyFile& study, const PointResult& result);
// Reads what ToJson has written, but for the point, which is given. Everything is checked.
Result<PointResult> ParseResult(std::string_view json, const GridPoint& point);

// ---- the plan

struct PlanOptions {
  bool simulated = false;      // no point is real
  bool computed = false;       // simulated points compute
  bool oversubscribe = false;  // real points may have more processes than there are cores
  bool on_hosts = false;       // real points may have slow links: hosts can be emulated
  uint32_t cores = 1;
  double memory_bytes = 0;  // available to real points
};

// Facts about the job that the plan depends on.
struct JobFacts {
  double events = 0;                   // length of the whole stream
  std::map<uint32_t, double> batch_s;  // compute time, by size
  double model_bytes = 0;              // size of the parameters
  double event_bytes = 0;              // size of a record in the stream
};

struct PlannedPoint {
  GridPoint point;
  Mode mode = Mode::kReal;
  double events = 0;
  double seconds = 0;       // estimated
  double memory_bytes = 0;  // estimated
  bool done = false;        // its result is there already
};

// kInvalidArgument, in one line, if a real point needs more memory than there is.
Result<std::vector<PlannedPoint>> MakePlan(const StudyFile& study, const PlanOptions& options,
                                           const JobFacts& facts);

// The time that is left: estimates, corrected by how long the points that are done took.
double SecondsLeft(const std::vector<PlannedPoint>& plan, double estimated_done, double took, uint32_t cores);

// A few lines for the user.
std::string Render(const StudyFile& study, const std::vector<PlannedPoint>& plan, uint32_t cores);

}  // namespace leat::study

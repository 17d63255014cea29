// Points of a study: their plan, which says how each is run, how long it takes, and how much memory it needs;
// and their results, as they are kept in files and shown in reports. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields/fields.h"
#include "base/status.h"
#include "lab/study/analysis.h"
#include "lab/study/grid/study_file.h"

namespace leat::study {

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

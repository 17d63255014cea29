// The result of a point, as it is kept in a file and shown in reports.
#pragma once

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

}  // namespace leat::study

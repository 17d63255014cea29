// Plan of a study: how each point is run, how long it takes, and how much memory it needs. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "lab/study/grid/result.h"
#include "lab/study/grid/study_file.h"

namespace leat::study {

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

// Runs the points of a study, and keeps their results. A real point is a job with real processes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "lab/study/analysis.h"
#include "lab/study/grid/study.h"

namespace leat::study {

struct RealPoint {
  std::string job_file;
  std::string data;  // --data; empty: the current directory
  uint32_t workers = 1;
  uint32_t servers = 1;  // 0: the strategy has none
  std::string folder;    // for the job and the logs; must not exist
  // Each process is on an emulated host; call hosts::EnterNamespaces before. Otherwise all are on this one.
  bool on_hosts = false;
  // The links of the hosts with workers and servers; the coordinator's is not limited. 0: unlimited.
  double bits_per_s = 0;
  uint64_t burst = 0;
  std::string program;  // leat; empty: this one
  Duration warm_up = std::chrono::seconds(2);
  // How long the speed is measured; then the processes are ended. 0: the job runs to its end.
  Duration measure{0};
  Duration within = std::chrono::seconds(90);  // without progress
  std::optional<Target> target = {};
  std::function<bool()> interrupted = {};
};

struct RealResult {
  double events_per_s = 0;    // in the middle of the job; 0: it was too short
  double processors = 0;      // the share of this machine's processors that was used meanwhile, by anyone
  double cpu_s = 0;           // CPU time of all processes that have ended
  report::JobStatus summary;  // summary of the whole job, or its last status
  std::optional<Reached> reached;  // the target
};

// All processes and hosts end with the call. Errors: what a process said last (kInternal), kDeadlineExceeded,
// kAborted if it was interrupted.
Result<RealResult> RunReal(const RealPoint& point);

struct StudyRun {
  std::string folder;  // results and logs; made if it is missing
  std::string data;    // --data
  PlanOptions plan;
  JobFacts facts;
  std::string profile;  // file; empty: none
  std::function<bool()> interrupted;
  std::function<void(const std::string&)> say;  // a line of progress
};

// Marks the points whose results are in the folder, with all that they depend on unchanged.
void FindDone(const StudyFile& study, const StudyRun& run, std::vector<PlannedPoint>* plan);

// Runs the points that are not done. A point that fails is a result with an error. Real points run one after
// the other, simulated ones on all cores. kAborted if it was interrupted; finished points are kept.
Status RunStudy(const StudyFile& study, const StudyRun& run, std::vector<PlannedPoint>* plan);

// All results of the plan that are in the folder.
std::vector<PointResult> ReadResults(const StudyFile& study, const StudyRun& run,
                                     const std::vector<PlannedPoint>& plan);

}  // namespace leat::study

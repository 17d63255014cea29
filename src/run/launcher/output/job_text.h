// Texts about a job on the terminal of `leat train`, beside its progress (show/report/display.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "job/job.h"
#include "run/launcher/runner.h"
#include "show/report/display.h"

namespace leat::launcher {

// Explains the figures: the bots' rate is easily mistaken for the speed of training.
void ExplainFigures(const job::Job& job, report::Display* display);
// Prints the share of the parameters of each server, if there are several.
void ReportPlacement(const job::Job& job, report::Display* display);

// Figures of the processes of a job that has ended.
struct ProcessFigures {
  double cpu_seconds = 0;                    // sum
  std::map<std::string, uint64_t> peak_rss;  // bytes, by role
  bool stopped = false;                      // by Ctrl-C
};
// Prints the summary that the coordinator has written, with these figures and the evaluation if the job has
// one. Returns the exit status.
int PrintSummary(const job::Job& job, const RunnerOptions& options, const ProcessFigures& figures);

}  // namespace leat::launcher

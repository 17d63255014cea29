// A round of `leat soak`: runs a job with real processes and its faults, and checks the number of events that
// the job has counted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lab/soak/round_plan.h"
#include "run/launcher/processes.h"

namespace leat::soak {

// Errors in a job's count of events, found in its parameters. A parameter below the number of events has lost
// some, one above it has counted some twice; a job may have both.
struct Tally {
  uint64_t lost = 0;   // the most that a parameter lacks
  uint64_t twice = 0;  // the most that a parameter has too often
  uint64_t wrong = 0;  // parameters
  // "1,024 of 4,096 parameters are wrong: from 99 to 105 of 100 events"; empty if none is.
  std::string reason;
};

Tally TallyOf(const std::vector<std::vector<float>>& variables, uint64_t events);

struct RoundSettings {
  std::string folder;  // new, and absolute: for the job, the logs and what hosts keep for a while
  bool hosts = false;  // each process is on a host of its own; after hosts::EnterNamespaces
  std::function<bool()> interrupted;
};

struct RoundResult {
  std::string failure;  // a line; empty: each event has counted once
  uint64_t lost = 0, twice = 0;
  uint64_t published = 0, counted = 0;
  uint32_t deaths = 0;  // processes killed by faults
  bool interrupted = false;
};

// Ends everything that it starts. `processes` has no other children.
RoundResult RunRound(const RoundPlan& plan, const RoundSettings& settings, launcher::Processes& processes);

}  // namespace leat::soak

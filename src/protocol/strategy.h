// Strategies of data parallelism: which gradients form an update, and how far workers may run ahead.
// docs/strategies.md describes them; this is what all roles derive from the setting. Pure functions and plain
// data.
//
// In the *stepped* strategies the batches of the stream have a sequence: step t consists of one run from each
// lane (virtual worker), whichever process computes it, and takes all parameters from version t to t + 1. The
// other strategies apply each run on arrival.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"

namespace leat::protocol {

enum class StrategyKind : uint8_t {
  kAsync = 0,  // each run is applied on arrival
  kSync = 1,   // a step is one update, from the mean of all its lanes
  kSsp = 2,    // as sync, but workers may be `staleness` steps ahead (Ho et al. 2013); -1: async
  // Asynchronous, with separate periods for fetching values and pushing gradients (Dean et al. 2012).
  kDownpour = 3,
  kAveraging = 4,  // lanes train separately for `period` batches, then their values are averaged
  // as sync, without servers: each worker has all parameters, and workers reduce gradients directly
  kAllReduce = 5,
};

struct StrategyConfig {
  static constexpr uint32_t kMaxLanes = 1 << 16;
  // allreduce: every worker receives all lanes of every round
  static constexpr uint32_t kMaxAllReduceLanes = 1 << 12;
  static constexpr int32_t kMaxStaleness = 1000;
  static constexpr uint32_t kMaxPeriod = 1 << 14;  // n_push, n_fetch, period

  enum class RateScale : uint8_t { kNone = 0, kLinear = 1, kSqrt = 2 };

  StrategyKind kind = StrategyKind::kAsync;
  uint32_t lanes = 1;       // stepped: runs per step; the effective batch size is this times the batch size
  bool auto_lanes = false;  // stepped: the job begins with `lanes`, and then they follow the workers
  RateScale rate_scale = RateScale::kNone;  // scales the learning rate with the lanes, if they are automatic
  uint32_t backup = 0;    // sync: additional lanes per step; the first `lanes` to arrive count
  int32_t staleness = 0;  // ssp
  // async, downpour, ssp -1: the learning rate is divided by the staleness, if above 1.
  bool staleness_aware = false;
  uint32_t n_push = 1;   // downpour: batches per push, whose gradients are summed
  uint32_t n_fetch = 1;  // downpour: batches between two fetches of values
  uint32_t period = 1;   // averaging: batches
  float momentum = 0;    // averaging: of the average
  bool sum = false;  // the loss is a sum over events: gradients of a step are added, not averaged by events
  uint64_t full_run = 1;       // events in a run of full batches, relative to which others are weighted
  bool deterministic = false;  // allreduce: gradients are added in lane order (as always with sync)
  bool mpi = false;            // allreduce: by MPI, under mpirun
  friend bool operator==(const StrategyConfig&, const StrategyConfig&) = default;

  bool stepped() const {
    return kind != StrategyKind::kAsync && kind != StrategyKind::kDownpour && staleness >= 0;
  }
  bool on_servers() const { return kind != StrategyKind::kAllReduce; }
  // Workers update their values locally after each batch.
  bool local_steps() const { return kind == StrategyKind::kDownpour || kind == StrategyKind::kAveraging; }
  // Batches per push.
  uint32_t run() const {
    return kind == StrategyKind::kDownpour ? n_push : kind == StrategyKind::kAveraging ? period : 1;
  }
  // Lanes of a full step.
  uint32_t total_lanes() const { return lanes + backup; }
  // Steps that a worker may be ahead of the parameters' version.
  uint32_t ahead() const {
    return kind == StrategyKind::kSsp && staleness > 0 ? static_cast<uint32_t>(staleness) : 0;
  }
};

std::string_view Name(StrategyKind kind);

// The settings of a job with this many workers that names only the kind.
StrategyConfig Defaults(StrategyKind kind, uint32_t workers);

// Reads the `strategy:` of a job: a name, or a map with `type` and the settings of that type. Throws
// std::invalid_argument with the line for a setting of another type and for all that Check rejects. Names
// that settings had in earlier versions are accepted. `lanes`: of a job that is resumed, whatever the number
// of workers is by now; 0: of a new one.
StrategyConfig StrategyFromConfig(const Config& config, uint32_t workers, uint32_t lanes = 0);

// Returns a note for each setting under its old name: "job.yaml:12: 'virtual_workers' is called 'lanes' now;
// …".
std::vector<std::string> OldNames(const Config& config);

// Returns why the settings are invalid, alone or with this many workers, in one line; ok if they are valid.
// `resumed`: there may be more workers than lanes.
Status Check(const StrategyConfig& strategy, uint32_t workers, bool resumed = false);

}  // namespace leat::protocol

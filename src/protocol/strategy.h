// Strategies of data parallelism: which gradients make an update, and who may be how far ahead of whom.
// docs/strategies.md says what each does; this is what all roles derive from the setting. Pure functions and
// plain data.
//
// In the *stepped* strategies the batches of the stream have a sequence: step t is made of one run from each
// of its lanes (virtual workers), whoever computes them, and all parameters go from version t to t + 1 by it.
// The others apply each run when it comes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/status.h"

namespace leat::protocol {

enum class StrategyKind : uint8_t {
  kAsync = 0,  // each run is applied when it comes
  kSync = 1,   // one update from the mean of all lanes of a step
  kSsp = 2,    // the same, but workers may be `staleness` steps ahead (Ho et al. 2013); -1: async
  // Asynchronous; values fetched and gradients pushed at periods of their own (Dean et al. 2012).
  kDownpour = 3,
  kAveraging = 4,  // lanes train by themselves for `period` batches, then their values are averaged
  kAllReduce = 5,  // as sync, without servers: workers hold all parameters and reduce among themselves
};

struct StrategyConfig {
  static constexpr uint32_t kMaxLanes = 1 << 16;
  static constexpr uint32_t kMaxAllReduceLanes = 1 << 12;  // allreduce: all are told every round whole
  static constexpr int32_t kMaxStaleness = 1000;
  static constexpr uint32_t kMaxPeriod = 1 << 14;  // n_push, n_fetch, period

  StrategyKind kind = StrategyKind::kAsync;
  uint32_t lanes = 1;     // stepped: runs that make a step; the joint batch is so many times the batch
  uint32_t backup = 0;    // sync: a step has so many lanes more, and the first `lanes` count
  int32_t staleness = 0;  // ssp
  // async, downpour, ssp -1: the rate is divided by the staleness, where above 1.
  bool staleness_aware = false;
  uint32_t n_push = 1;   // downpour: batches whose gradients are pushed as one sum
  uint32_t n_fetch = 1;  // downpour: batches between two fetches of values
  uint32_t period = 1;   // averaging: batches
  float momentum = 0;    // averaging: of the average
  bool sum = false;  // the loss is a sum over events: gradients of a step are added, not averaged by events
  uint64_t full_run = 1;       // events of a run of full batches, which others are weighed against
  bool deterministic = false;  // allreduce: gradients are added in the order of lanes (sync always does that)
  bool mpi = false;            // allreduce: by MPI, under mpirun
  friend bool operator==(const StrategyConfig&, const StrategyConfig&) = default;

  bool stepped() const {
    return kind != StrategyKind::kAsync && kind != StrategyKind::kDownpour && staleness >= 0;
  }
  bool on_servers() const { return kind != StrategyKind::kAllReduce; }
  // Workers change their values themselves from batch to batch.
  bool local_steps() const { return kind == StrategyKind::kDownpour || kind == StrategyKind::kAveraging; }
  // Batches that one push covers.
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

// What a job with so many workers gets that names the kind and nothing else.
StrategyConfig Defaults(StrategyKind kind, uint32_t workers);

// Reads the `strategy:` of a job: a name, or a map with `type` and the settings of that type. What makes no
// sense throws std::invalid_argument with its line: a setting that other types have, and all that Check
// finds.
StrategyConfig StrategyFromConfig(const Config& config, uint32_t workers);

// Why the settings make no sense, alone or with so many workers; ok when they do. One clear line each.
Status Check(const StrategyConfig& strategy, uint32_t workers);

}  // namespace leat::protocol

// What the status of a job says at one moment (docs/jobs.md, "The result"), for samples and the log of
// events.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fields/fields.h"

namespace leat::observe {

// Some thousand years after 1970: what is shown has room for such times, and computes with them.
inline constexpr uint64_t kLatest_s = 100'000'000'000;
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct MemberReading {
  std::string role;  // "worker", "ps", "feed", "coordinator" (of a standby)
  uint32_t index = 0;
  uint64_t node = 0;
  std::string state;  // "", "standby" or "draining"
  std::string host;
  int64_t pid = 0;
  bool slow = false, stuck = false, skewed = false;
  bool shown = true;                     // false: not in the trimmed status
  std::vector<std::string> unreachable;  // "ps 0"
  double cpu_s = 0;
  double done = 0;  // events of a worker, updates of a server
  // Of a worker: sums of seconds, and the duration of a step without waits.
  double compute_s = 0, wait_s = 0, input_wait_s = 0, decode_s = 0;
  double step_ms = kUnknown;
  std::string last_dead_letter;
  double bytes = 0;  // of a server: received and sent

  // "worker 3", "standby 0".
  std::string name() const;
};

struct DepartureReading {
  uint64_t number = 0;  // since the coordinator started
  std::string member;   // "worker 3"
  uint64_t node = 0;
  std::string how;  // "left", "lost" or "evicted"
};

// Figures are kUnknown if the job has none.
struct Reading {
  double time_s = 0;  // since 1970
  std::string job, phase, strategy;
  uint64_t term = 0;
  uint64_t events = 0, stream_end = 0;
  double events_per_s = 0;  // of the last seconds
  double loss = kUnknown, accuracy = kUnknown, mae = kUnknown, auc = kUnknown, auc_possible = kUnknown;
  double lag = 0, lag_s = 0;
  std::vector<double> staleness;  // histogram
  double cpu_s = 0;               // of all processes
  uint64_t dead_letters = 0, rejected_batches = 0, conflicts = 0;
  uint64_t failed_checkpoints = 0;
  std::string checkpoint_failure, checkpoint;
  std::string waiting_for;
  uint64_t drift_alarms = 0;
  double drift_event = 0;  // of the last alarm
  uint64_t planned_moves = 0;
  double wanted_workers = kUnknown, wanted_servers = kUnknown;
  std::string wanted_reason;
  std::vector<std::string> warnings;
  std::vector<MemberReading> members;  // by node
  std::vector<DepartureReading> departed;

  const MemberReading* Find(uint64_t node) const;
  size_t Count(std::string_view role) const;  // without those that stand by
};

// kDataLoss if `status` is no JSON object, or one with more than 32 levels. Entries that are absent, or are
// not what they should be, keep their defaults: the status may be that of another version of the program.
// `trimmed`: gets the status to be shown and stored, whose size is bounded: of long lists, such as that of
// the members, only what matters most.
Result<Reading> ReadStatus(std::string_view status, double time_s, std::string* trimmed = nullptr);

}  // namespace leat::observe

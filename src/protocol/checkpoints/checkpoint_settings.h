// The job's settings of its checkpoints, and their rows of the coordinator's status. Plain data. Rules are
// those settings that a job's file gives (coordinator/job_rules.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace leat::protocol {

// The bytes per second at which every checkpoint can be saved.
inline constexpr uint64_t kSlowestDisk = 4 << 20;

struct CheckpointRules {
  // Limit for a checkpoint, in addition to the time that its bytes take at kSlowestDisk. The end of the job
  // waits three times as long for servers that hold the trained state.
  Duration checkpoint_timeout = std::chrono::seconds(60);
  uint32_t keep_checkpoints = 2;
};

struct CheckpointSettings : CheckpointRules {
  Duration checkpoint_interval{0};  // 0: only at the end and on demand
};

struct CheckpointRows {
  uint64_t failed_checkpoints = 0;     // failed since the start: a lost server, a disk error or a deadline
  std::string checkpoint_failure;      // why the last one failed; empty after a success
  std::optional<uint64_t> checkpoint;  // newest durable one
  std::string checkpoint_directory;
  // The checkpoint that is being made.
  struct Saving {
    uint64_t id = 0;
    std::string directory;    // empty: not made yet
    std::string waiting_for;  // "the shards of ps 0, ps 3"
    Duration limit{};         // it is given up if it waits for servers and disks for longer in all
    uint64_t bytes = 0;       // in the directory; filled in by the shell
  };
  std::optional<Saving> saving;
};

}  // namespace leat::protocol

// `leat coordinator`: the view, the leases, the checkpoints; never on the path of a gradient.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "checkpoint/store.h"
#include "job/job.h"

namespace leat::train {

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:0";
  std::string token;
  bool resume = false;
  uint64_t pause_at = 0;  // CoordinatorConfig::pause_at
  // Who is silent for longer is taken for lost.
  Duration heartbeat_timeout = std::chrono::seconds(5);
  // Called once it serves, with the address that it has.
  std::function<void(const std::string& address)> on_ready;
};

// Runs the job's coordinator in the calling thread until the job is over or a signal asks for its end
// (checkpoint first). Writes summary.json into the job's directory at the end. Throws std::invalid_argument
// on what the user got wrong.
Status RunCoordinator(const Job& job, const CoordinatorOptions& options);

}  // namespace leat::train

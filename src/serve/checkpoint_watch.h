// Keeps a model at the newest checkpoint of a job's directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "base/threads/thread.h"
#include "protocol/slices.h"
#include "serve/versions.h"

namespace leat::serve {

// Reads on a thread of its own, and takes no lock of the directory. A damaged checkpoint is not used: the
// served version stays, or an older checkpoint is used.
class CheckpointWatch {
 public:
  // Looks for a newer checkpoint every `interval`. `versions` outlives it. A version has the number of its
  // checkpoint.
  CheckpointWatch(std::string directory, protocol::SliceTable table, Versions& versions, Duration interval);
  ~CheckpointWatch();

 private:
  void Run();
  // Serves the newest checkpoint if it has not been looked at. kNotFound: there is none.
  Status Look();

  const std::string directory_;
  const protocol::SliceTable table_;
  Versions& versions_;
  const Duration interval_;
  const MonotonicClock clock_;
  uint64_t looked_at_ = 0;  // the newest checkpoint, whether it was damaged or not
  uint64_t served_ = 0;
  std::string last_error_;
  StopEvent stop_;
  std::thread thread_;
};

}  // namespace leat::serve

// How long a command waits for a checkpoint of a running job, and what it tells its user meanwhile.
//
// The coordinator answers when the checkpoint is complete, or when it gives the checkpoint up. The command
// waits for that as long as the coordinator answers questions about its status and the checkpoint makes
// progress. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "show/report/job_status.h"

namespace leat::report {

class AdminWait {
 public:
  // Beyond the checkpoint's own limit, or without one: at the end of a job members leave.
  static constexpr Duration kPatience = std::chrono::seconds(180);
  // The coordinator is lost after this long without a status.
  static constexpr Duration kSilence = std::chrono::seconds(10);

  explicit AdminWait(Time now, Duration silence = kSilence) : longest_(silence), heard_(now), moved_(now) {}

  // The coordinator's status. Returns a line for the user if there is news.
  std::optional<std::string> OnStatus(Time now, const JobStatus& status);
  // The coordinator has not answered.
  void OnSilence(Status why) { silence_ = std::move(why); }
  // Ok: go on waiting. Otherwise why not, and what the job is waiting for.
  Status Check(Time now) const;

 private:
  const Duration longest_;  // silence of the coordinator
  Time heard_;              // from the coordinator
  Time moved_;              // the checkpoint
  Status silence_;
  std::optional<uint64_t> checkpoint_;
  uint64_t bytes_ = 0;
  Duration limit_{};
  std::string waiting_for_;
  std::string shown_;
};

}  // namespace leat::report

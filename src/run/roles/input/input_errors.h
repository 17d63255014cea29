// A worker's input errors: counts and keeps dead letters, and decides when to give up on an unreadable
// stream. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "job/job.h"
#include "protocol/messages_control.h"
#include "run/roles/input/split_loader.h"
#include "stream/dead_letters.h"
#include "stream/decode/decoder.h"

namespace leat::roles {

class InputErrors {
 public:
  // Missing or damaged data are given up after `read_timeout`, errors that may heal (ExitStatus::kMayHeal)
  // after 60 times as long, others after 6 times as long. Errors are recorded in `progress`, which must
  // outlive this.
  InputErrors(const job::Job& job, Duration read_timeout, protocol::WorkerProgress* progress);

  // Starts to keep dead letters in the job's directory, if it has one.
  void OpenDeadLetters(NodeId node);
  // To be called when a split has been read. kFailedPrecondition: there are too many dead letters.
  Status OnSplit(const PreparedSplit& split);
  // To be called when a split could not be read. Ok: retry after retry_interval(), because the lease may be
  // outdated and its events expired. An error, after repeated failures: the worker ends with it.
  Status OnUnreadable(Time now, uint64_t lease, const Status& why);
  Duration retry_interval() const { return read_timeout_ / 10; }

 private:
  const std::string directory_;  // for dead letters; empty: they are not kept
  const Duration read_timeout_;
  protocol::WorkerProgress* progress_;
  stream::TextHint hint_;
  stream::DeadLetterRate rate_;
  std::unique_ptr<stream::DeadLetterFile> file_;
  std::optional<Time> unreadable_since_;  // first failure since the last successful read
};

}  // namespace leat::roles

// What comes of the splits that a worker asks for: dead letters counted and kept, and when to give up on a
// stream that cannot be read. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "job/job.h"
#include "protocol/messages_control.h"
#include "roles/input/split_loader.h"
#include "stream/dead_letters.h"
#include "stream/decode/text_hint.h"

namespace leat::train {

class InputErrors {
 public:
  // What cannot be read is given up after `read_timeout` when it is gone or damaged, and after longer
  // otherwise. Whatever happens is noted in `progress`, which must outlive this.
  InputErrors(const Job& job, Duration read_timeout, protocol::WorkerProgress* progress);

  // Where the job has a directory, dead letters are kept there from now on.
  void OpenDeadLetters(NodeId node);
  // A split has been read. kResourceExhausted when there are too many dead letters by now.
  Status OnSplit(const PreparedSplit& split);
  // A split could not be read. Ok: it is to be tried again after retry_interval(), so that neither this
  // worker nor the coordinator spins. The lease may be outdated, and its events gone with good reason; but
  // what is gone or damaged time and again stays so: then it is why the worker ends.
  Status OnUnreadable(Time now, uint64_t lease, const Status& why);
  Duration retry_interval() const { return read_timeout_ / 10; }

 private:
  const std::string directory_;  // of dead letters; empty: not kept
  const Duration read_timeout_;
  protocol::WorkerProgress* progress_;
  stream::DeadLetterRate rate_;
  stream::TextHint hint_;
  std::unique_ptr<stream::DeadLetterFile> file_;
  std::optional<Time> unreadable_since_;  // and nothing was read since
};

}  // namespace leat::train

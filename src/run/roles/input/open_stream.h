// Where a role reads the job's stream: in its host's own copies, or from a feed.
#pragma once

#include <memory>

#include "base/status.h"
#include "job/job.h"
#include "protocol/messages_control.h"
#include "run/feed/client.h"
#include "run/roles/worker_role.h"

namespace leat::roles {

struct OpenedStream {
  std::unique_ptr<stream::Source> source;
  // Client that the source reads through; null: it reads this host's copies. Abort ends a read in progress.
  std::shared_ptr<feed::Client> feed;
  // Null: dead letters are kept in the job's directory.
  std::shared_ptr<stream::DeadLetterSink> dead_letters;

  void Abort() const {
    if (feed != nullptr) feed->Abort();
  }
  // Adds what was read so far.
  void Count(protocol::WorkerProgress* progress) const;
};

// Opens this host's copies if they are the job's. Otherwise reads from the job's feeds, with a warning that
// names what differs. If there are no feeds either, returns why the copies are not used.
Result<OpenedStream> OpenStream(const job::Job& job, const RoleOptions& options);

}  // namespace leat::roles

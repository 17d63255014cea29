// How a job begins or goes on at a coordinator: checks, the election among coordinators, the job's directory
// and bucket, the stream, and everything else that the coordinator's loop needs.
#pragma once

#include <memory>
#include <utility>

#include "base/status.h"
#include "job/job.h"
#include "protocol/coordinator/coordinator_settings.h"
#include "protocol/records/journal.h"
#include "run/feed/server.h"
#include "run/roles/input/coordinator_streams.h"
#include "run/roles/predictions/publisher_service.h"
#include "run/roles/standby/journal_shipper.h"
#include "run/roles/start/coordinator_options.h"
#include "show/tensorboard/run_writer.h"
#include "storage/checkpoint/bucket/bucket.h"
#include "storage/checkpoint/store.h"

namespace leat::roles {

// A job that is about to run.
struct StartedJob {
  explicit StartedJob(job::Job given) : job(std::move(given)) {}

  job::Job job;
  checkpoint::IntactCheckpoint intact;  // the checkpoint that it continues from, and damaged ones
  std::unique_ptr<checkpoint::Store> store;
  std::unique_ptr<checkpoint::Bucket> bucket;  // null: the job's checkpoints are in its directory alone
  protocol::RecoveredState restored;           // the manifest's directory is absolute
  CoordinatorStreams streams;
  std::unique_ptr<PublisherService> publisher;  // null: this process publishes no predictions
  // For workers on hosts without the job's input; null: the job runs on all others.
  std::unique_ptr<feed::ServerThread> feed;
  protocol::CoordinatorConfig config;
  JournalShipping shipping;
  std::unique_ptr<tensorboard::RunWriter> tensorboard;  // null: nobody has asked for it
};

// Blocks, with `resume` also for brokers and buckets that are away. Writes into the job's directory and
// claims its term, but not yet the job. Errors are those of RunCoordinator.
Result<StartedJob> StartJob(const job::Job& job, const CoordinatorOptions& options);
// Keeps damaged checkpoints aside, once the job can continue without them.
Status SetDamagedAside(const StartedJob& started);

}  // namespace leat::roles

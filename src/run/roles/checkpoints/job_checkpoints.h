// The job's checkpoints: directories, manifests, copies in a bucket, verification, and the end of those that
// nobody needs. Executes the coordinator's actions about them and tells it what has become of each. Loop's
// thread only.
//
// Files are written, synced and removed on background threads, in the order of the actions. Work on the
// bucket comes before the work on files that follows from it. A directory that another coordinator has taken
// over is not changed: Callbacks::replaced.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "base/status.h"
#include "job/job.h"
#include "protocol/coordinator/coordinator.h"
#include "run/roles/background_thread.h"
#include "run/roles/input/coordinator_streams.h"
#include "run/roles/role.h"
#include "run/roles/shards/shard_files.h"
#include "run/roles/start/coordinator_options.h"
#include "run/roles/start/job_start.h"
#include "storage/checkpoint/bucket/bucket.h"
#include "storage/checkpoint/store.h"

namespace leat::roles {

class JobCheckpoints {
 public:
  struct Parts {
    LoopWork& work;
    BackgroundThread& background;    // writes the journal, too; ends before this object
    protocol::Coordinator& machine;  // hears what becomes of its actions
    StreamWatch& stream;
    StartedJob& started;
    KillPoint& kill_point;
    metrics::Registry& metrics;
  };
  struct Callbacks {
    std::function<void(protocol::CoordinatorActions)> commit;
    // Before the coordinator hears of it. `begin`: when it was begun; none: not known.
    std::function<void(const protocol::Manifest& manifest, std::optional<Time> begin)> complete;
    std::function<void(const Status& why)> replaced;
  };
  JobCheckpoints(const Parts& parts, Callbacks callbacks);

  // Serves the shards to roles that do not see the job's directory. `restored`: the checkpoint that the job
  // continues from, with an absolute directory.
  Status StartService(const CoordinatorOptions& options, const std::optional<protocol::Manifest>& restored);
  // Valid after StartService.
  const ShardService& service() const { return *service_; }

  void Execute(const protocol::PrepareCheckpoint& action);
  void Execute(const protocol::CommitManifest& action);
  void Execute(const protocol::DropCheckpoints& action);
  void Execute(const protocol::RemoveCheckpoint& action);
  void Execute(const protocol::VerifyCheckpoint& action);
  // Everything that is still to be done comes first, and then the end of the job in its directory. `agreed`:
  // false, standbys may know better, so they are not told that the job is over. `done`: the outcome of giving
  // up the job's place in the stream.
  void End(const protocol::JobEnded& ended, std::function<bool()> agreed,
           std::function<void(const Status& unpinned)> done);
  // Gives up calls to the bucket that are under way.
  void Abort() {
    if (bucket_ != nullptr) bucket_->store().Abort();
  }

  // Measures how much has been written of the checkpoint that is being made.
  void MeasureSaving(const protocol::CoordinatorStatus& status);
  void FillSaved(protocol::CoordinatorStatus* status) const {
    if (status->saving && status->saving->id == saving_) status->saving->bytes = saved_bytes_;
  }

 private:
  struct Verified {
    Status status;
    bool has_other = false;  // it is damaged, and the one before it can take its place
  };
  using OnDone = std::function<void(const Status& status)>;

  Time Now() const { return parts_.work.loop().Now(); }
  void Prepare(uint64_t id, uint64_t bytes);
  void CommitWithBucket(const protocol::Manifest& manifest, const std::string& directory, const OnDone& done);
  void OnComplete(const protocol::Manifest& manifest);
  void Remove(uint64_t id);

  // ---- on background threads
  Status Commit(const protocol::Manifest& manifest, const std::string& directory);
  void ReleaseBefore(const std::vector<protocol::Position>& watermark, Status dropped);
  Status SetAside(const protocol::VerifyCheckpoint& action, const Verified& verified);
  Status EndInDirectory(bool agreed, bool finished, const protocol::MembersLeft& left);

  const Parts parts_;
  const job::Job& job_;
  checkpoint::Store& store_;
  checkpoint::Bucket* const bucket_;  // used by bucket_thread_; null: checkpoints are in the directory alone
  const Callbacks callbacks_;
  metrics::Counter& checkpoints_;
  metrics::Gauge& last_checkpoint_;
  std::unique_ptr<ShardService> service_;
  std::pair<uint64_t, Time> begun_{};  // the last one, and when
  uint64_t durable_ = 0;               // the newest complete one since the start
  uint64_t saving_ = 0;                // the checkpoint that is being made; 0: none
  uint64_t saved_bytes_ = 0;           // bytes of it that are written
  bool measures_saving_ = false;
  BackgroundThread bucket_thread_{kNiceWithFiles};  // uses the members above
  // Reads and removes whole checkpoints, for which the journal cannot wait. Uses Parts::background, which
  // uses it.
  BackgroundThread files_thread_{kNiceWithFiles};
};

}  // namespace leat::roles

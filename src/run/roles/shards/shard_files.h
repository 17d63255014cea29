// Reads and writes the checkpoint files of slices: in the job's directory where this process sees it,
// otherwise through the coordinator's transfer service. If the job's checkpoints are in a bucket, each
// process uploads its own, from the job's directory or a scratch directory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "compute/optim/optimizer.h"
#include "protocol/records/manifest.h"
#include "protocol/server/server.h"
#include "run/roles/background_thread.h"
#include "run/roles/role.h"
#include "storage/checkpoint/shard.h"
#include "storage/object_store/object_store.h"
#include "storage/transfer/client.h"
#include "storage/transfer/service.h"

namespace leat::roles {

// Servers and group members call it on a background thread, one call at a time.
class ShardFiles {
 public:
  struct Options {
    std::string coordinator;  // the address by which this process has reached it
    std::string scratch;      // the parent of the scratch directory; empty: $TMPDIR
    transfer::MakeTransport make_transport;
    transfer::TransferLimits limits;
    std::optional<object_store::Settings> bucket = {};  // none: checkpoints are in the job's directory alone
    object_store::StoreOptions store = {};              // for the bucket
  };
  // Finds out whether this process sees the job's directory and can write there. If not, it makes the scratch
  // directory: kInvalidArgument if there is no place for it.
  static Result<std::unique_ptr<ShardFiles>> Make(const protocol::JoinReply& joined, const Options& options);

  bool remote() { return Service() != nullptr; }

  // Reads each slice, or returns the error of reading it: from the directory, through the service, or else
  // from the bucket. Opens each file once. Blocks.
  void Load(const std::vector<protocol::SliceOrder>& orders, const protocol::SliceTable& table,
            const optim::OptimizerConfig& optimizer,
            const std::function<void(const protocol::SliceOrder&, Result<protocol::Slice>)>& loaded);
  // Writes the file of one server or member in a checkpoint; it is synced in the job's directory when the
  // report is ok. Blocks. A shard that is transferred is first written to the scratch directory, so that the
  // slices are held for as long as the disk needs, not the network. The transfer itself holds 4 MiB.
  // Each slice is released once it is written; `read` is called when all are. `done` gets the report, on this
  // thread or, with a bucket, once the shard is there, on a thread of the uploads. The upload of an earlier
  // checkpoint is given up.
  void Save(protocol::SaveShard save, NodeId node, const protocol::SliceTable& table,
            const optim::OptimizerConfig& optimizer, const std::function<void()>& read,
            std::function<void(protocol::ShardReport)> done, const checkpoint::ShardProgress& progress = {});
  // Thread-safe. The coordinator, which this process has reached at this address, is another one, with
  // another service, perhaps also with another directory: `told` has these fields of a reply to its
  // heartbeat. A transfer from or to the former one fails.
  void Redirect(const protocol::JoinReply& told, const std::string& coordinator);
  // Facts about a new coordinator in a heartbeat's reply; none: it names none.
  template <class Reply>
  static std::optional<protocol::JoinReply> Told(const Reply& reply) {
    if (reply.transfers.empty()) return std::nullopt;
    protocol::JoinReply told;
    told.transfers = reply.transfers;
    told.probe = reply.probe;
    told.probe_content = reply.probe_content;
    return told;
  }
  // Thread-safe. Transfers fail from now on, the current one at once.
  void Abort();

 private:
  ShardFiles(const Options& options, uint64_t term) : options_(options), term_(term) {}
  std::shared_ptr<transfer::Client> Service() {
    std::lock_guard lock(mutex_);
    return client_;
  }
  std::string ScratchPath() {
    std::lock_guard lock(mutex_);
    return scratch_ == nullptr ? std::string() : scratch_->path();
  }
  // Shards go through the service at this address.
  Status BeRemote(const protocol::JoinReply& joined, const std::string& coordinator);
  Status Send(transfer::Client& service, uint64_t checkpoint, const protocol::ManifestShard& shard);
  // Aborts the upload before it.
  Result<std::shared_ptr<object_store::ObjectStore>> NextUpload();
  Result<protocol::Slice> LoadFromBucket(const protocol::SliceOrder& order, const protocol::SliceTable& table,
                                         uint32_t slots);

  const Options options_;
  const uint64_t term_;
  std::mutex mutex_;
  std::unique_ptr<Scratch> scratch_;                    // null: it was never needed
  std::shared_ptr<transfer::Client> client_;            // null: the directory is visible
  std::shared_ptr<object_store::ObjectStore> uploads_;  // store of the newest upload
  std::shared_ptr<object_store::ObjectStore> loads_;    // null: nothing was read from the bucket yet
  bool aborted_ = false;
  std::optional<BackgroundThread> upload_thread_;  // uses the members above; none: there is no bucket
};

// The name under which the service publishes a shard of the checkpoint in this directory.
std::string PublishedName(const std::string& checkpoint_directory, const std::string& file);

// The bytes of the files in a checkpoint's directory, complete or not. Thread-safe; blocks on the disk.
uint64_t SavedBytes(const std::string& checkpoint_directory);

// The coordinator's side of checkpoints for roles that do not see the job's directory: publishes the shards
// and manifests of the newest checkpoints, and takes the shards of the one that is being made. Fill may be
// called by any thread; the other calls are made one at a time, on any thread, and block on files.
class ShardService {
 public:
  struct Options {
    std::string directory;   // the job's directory
    std::string listen;      // address of the service
    std::string advertise;   // the coordinator's advertised address; empty: none
    uint64_t max_bytes = 0;  // limit of all shards of a checkpoint
    transfer::MakeTransport make_transport;
  };
  // Writes the probe into the job's directory and starts to serve.
  static Result<std::unique_ptr<ShardService>> Start(const Options& options);

  const std::string& address() const { return service_->address(); }
  // Adds the service's address and the probe to a joining role's reply.
  void Fill(protocol::JoinReply* reply) const;
  // Adds them to the reply to a heartbeat of a member that has joined at another coordinator.
  void FillHeartbeat(protocol::ControlReply* reply) const;

  void OnPrepared(const protocol::CheckpointOrder& order) {
    service_->AcceptUploads(order.id, order.directory, max_bytes_);
  }
  // `directory` is absolute. The shards of the checkpoint before it stay published, because a role may be
  // reading them. kNotFound, … if a shard cannot be opened.
  Status OnComplete(const std::string& directory, const protocol::Manifest& manifest);
  void OnRemoved(uint64_t checkpoint);

 private:
  ShardService() = default;

  std::string probe_, probe_content_, transfers_;
  uint64_t max_bytes_ = 0;
  std::map<uint64_t, std::vector<std::string>> published_;  // by checkpoint: the names
  std::unique_ptr<transfer::Service> service_;
};

}  // namespace leat::roles

// The coordinator's side of checkpoints for roles that do not see the job's directory: publishes the shards
// and manifests of the newest checkpoints, and takes the shards of the one that is being made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/records/manifest.h"
#include "storage/transfer/service.h"

namespace leat::roles {

// The name under which the service publishes a shard of the checkpoint in this directory.
std::string PublishedName(const std::string& checkpoint_directory, const std::string& file);

// The bytes of the files in a checkpoint's directory, complete or not. Thread-safe; blocks on the disk.
uint64_t SavedBytes(const std::string& checkpoint_directory);

// Fill may be called by any thread; the other calls are made one at a time, on any thread, and block on
// files.
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

  void OnPrepared(const protocol::CheckpointOrder& order);
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

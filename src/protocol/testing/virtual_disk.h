// What survives the processes of a virtual job: the journal, the checkpoints, the shards.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/coordinator.h"
#include "protocol/server.h"

namespace leat::protocol::testing {

class VirtualDisk {
 public:
  using Shard = std::vector<std::shared_ptr<const Slice>>;

  // ---- the coordinator's part
  void Append(const JournalRecord& record);
  CheckpointOrder Prepare(uint64_t id);
  void Commit(const Manifest& manifest) { manifests_[manifest.id] = manifest; }
  void Drop(uint64_t oldest_kept, const std::vector<Position>& watermark);
  Restored Restore() const;
  // Every cut that was ever journaled.
  const std::vector<Cut>& cuts() const { return all_cuts_; }
  std::vector<Position> start() const { return start_; }
  const Manifest* newest() const { return manifests_.empty() ? nullptr : &manifests_.rbegin()->second; }

  // ---- the servers' part
  void Write(const std::string& directory, const std::string& file, const Shard& shard);
  // kNotFound when the checkpoint was dropped, or the slice is not in the file.
  Result<Slice> Read(const std::string& directory, const std::string& file, SliceId slice) const;

 private:
  std::vector<JournalRecord> journal_;
  std::vector<Cut> all_cuts_;
  std::vector<Position> start_;
  std::map<uint64_t, Manifest> manifests_;  // complete checkpoints
  std::map<std::string, std::map<std::string, Shard>> files_;
};

}  // namespace leat::protocol::testing

// The persistent state of a virtual job: the journal, checkpoints and shards.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/coordinator/coordinator.h"
#include "protocol/server/server.h"

namespace leat::sim {

class Disk {
 public:
  using Shard = std::vector<std::shared_ptr<const protocol::Slice>>;

  // ---- used by the coordinator
  void Append(const protocol::JournalRecord& record);
  protocol::CheckpointOrder Prepare(uint64_t id);
  void Commit(const protocol::Manifest& manifest) { manifests_[manifest.id] = manifest; }
  void Drop(uint64_t oldest_kept, const std::vector<protocol::Position>& watermark);
  void Remove(uint64_t id);
  // Sets damaged checkpoints aside. The newest of the others.
  protocol::RecoveredState Restore();
  // kDataLoss if it is damaged; it is then set aside.
  Status Verify(uint64_t id);
  // From now on nothing can be read from the newest checkpoint. Not if the one before it is damaged, or there
  // is none.
  void DamageNewest();
  // Checkpoints that have been set aside.
  uint64_t found_damaged() const { return found_damaged_; }
  // Every cut, round and raised learning rate ever journaled.
  const std::vector<protocol::Cut>& cuts() const { return all_cuts_; }
  const std::vector<protocol::RoundMade>& rounds() const { return all_rounds_; }
  const std::vector<protocol::RateRaised>& raised() const { return all_raised_; }
  std::vector<protocol::Position> start() const { return start_; }
  const protocol::Manifest* newest() const {
    const auto last = std::ranges::find_if(manifests_.rbegin(), manifests_.rend(), [this](const auto& entry) {
      return !damaged_.contains(entry.second.directory);
    });
    return last == manifests_.rend() ? nullptr : &last->second;
  }

  // ---- used by the servers
  void Write(const std::string& directory, const std::string& file, const Shard& shard);
  // kNotFound if the checkpoint was dropped, or the slice is not in the file.
  Result<protocol::Slice> Read(const std::string& directory, const std::string& file, SliceId slice) const;

 private:
  void Know(const protocol::Cut& cut);

  std::vector<protocol::JournalRecord> journal_;
  std::vector<protocol::Cut> all_cuts_;
  std::set<std::pair<uint32_t, protocol::Position>> known_;  // partition and begin of all_cuts_
  std::vector<protocol::RoundMade> all_rounds_;
  std::vector<protocol::RateRaised> all_raised_;
  std::vector<protocol::Position> start_;
  std::map<uint64_t, protocol::Manifest> manifests_;  // complete checkpoints
  std::set<std::string> damaged_;                     // directories
  uint64_t found_damaged_ = 0;
  uint64_t last_checkpoint_ = 0;
  std::map<std::string, std::map<std::string, Shard>> files_;
};

}  // namespace leat::sim

// The persistent state of a virtual job: the journal, checkpoints and shards.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lab/sim/succession/coordinators.h"
#include "protocol/actions.h"
#include "protocol/records/journal.h"
#include "protocol/server/server.h"

namespace leat::sim {

// A slice with memory of its own.
protocol::Slice CopyOf(const protocol::Slice& slice);

class Disk {
 public:
  using Shard = std::vector<std::shared_ptr<const protocol::Slice>>;

  // ---- used by coordinators
  // A coordinator starts, with a new term: seals the journals of those before it, and removes the checkpoints
  // that they have not completed.
  uint64_t Claim();
  // False, here and below: a later coordinator has claimed its term, and nothing is changed.
  bool Append(uint64_t term, const protocol::JournalRecord& record);
  bool Confirm(uint64_t term) const;
  // `host`: begins the directory's name.
  protocol::CheckpointOrder Prepare(uint64_t id, const std::string& host = "");
  bool Commit(uint64_t term, const protocol::Manifest& manifest);
  bool Drop(uint64_t term, uint64_t oldest_kept, const std::vector<protocol::Position>& watermark);
  bool Remove(uint64_t term, uint64_t id);
  // Sets damaged checkpoints aside. The newest of the others.
  protocol::RecoveredState Restore();
  // kDataLoss if it is damaged; it is then set aside. kStale: see Append.
  Status Verify(uint64_t term, uint64_t id);
  // From now on nothing can be read from the newest checkpoint. Not if the one before it is damaged, or there
  // is none.
  void DamageNewest();
  // Checkpoints that have been set aside.
  uint64_t found_damaged() const { return found_damaged_; }
  // Rounds that were replaced by later ones.
  uint64_t rounds_remade() const { return rounds_remade_; }
  // Every cut, raised learning rate and number of lanes ever journaled, and every round that no later one
  // replaces.
  const std::vector<protocol::Cut>& cuts() const { return all_cuts_; }
  const std::vector<protocol::RoundMade>& rounds() const { return all_rounds_; }
  const std::vector<protocol::RateRaised>& raised() const { return all_raised_; }
  const std::vector<protocol::LanesSet>& lanes() const { return all_lanes_; }
  std::vector<protocol::Position> start() const { return start_; }
  bool IsJournaled(const protocol::Cut& cut) const;  // it was, at some time
  const protocol::Manifest* newest() const {
    const auto last = std::ranges::find_if(manifests_.rbegin(), manifests_.rend(), [this](const auto& entry) {
      return !damaged_.contains(entry.second.directory);
    });
    return last == manifests_.rend() ? nullptr : &last->second;
  }

  // ---- used by coordinators with directories of their own, which keep their journals themselves
  // A record is acted on.
  void Observe(const protocol::JournalRecord& record) { Append(term_, record); }
  // Copies all files; false if there is no such directory.
  bool CopyFiles(const std::string& from, const std::string& to);

  // ---- used by the servers
  void Write(const std::string& directory, const std::string& file, const Shard& shard);
  // kNotFound if the checkpoint was dropped, or the slice is not in the file.
  Result<protocol::Slice> Read(const std::string& directory, const std::string& file, SliceId slice) const;

 private:
  void Know(const protocol::Cut& cut);

  uint64_t term_ = 0;                             // the highest that was claimed
  std::vector<protocol::JournalRecord> journal_;  // the journal of that term
  std::vector<protocol::Cut> all_cuts_;
  std::map<std::pair<uint32_t, protocol::Position>, protocol::Cut>
      known_;  // all_cuts_ by partition and begin
  std::vector<protocol::RoundMade> all_rounds_;
  std::vector<protocol::RateRaised> all_raised_;
  std::vector<protocol::LanesSet> all_lanes_;
  std::vector<protocol::Position> start_;
  std::map<uint64_t, protocol::Manifest> manifests_;  // complete checkpoints
  std::set<std::string> damaged_;                     // directories
  uint64_t found_damaged_ = 0;
  uint64_t rounds_remade_ = 0;
  uint64_t last_checkpoint_ = 0;
  std::map<std::string, std::map<std::string, Shard>> files_;
};

// Checkpoints on the disk, which takes its time, may be full, or may fail to read: orders and manifests of
// coordinators, and the shards of servers and members of groups.
//
// A manifest that could not be written may be complete all the same. The coordinator may die before and after
// it is complete; a crash in between leaves a checkpoint that was never announced. Checks that a complete
// checkpoint has each slice once, with every run before its watermark (kCheckpointsWhole).
class CheckpointFiles : Concern {
 public:
  using Concern::Concern;

  // ---- coordinators
  void Execute(const CoordinatorPtr& c, const protocol::PrepareCheckpoint& a);
  void Execute(const CoordinatorPtr& c, const protocol::CommitManifest& a);
  void Execute(const CoordinatorPtr& c, const protocol::DropCheckpoints& a);
  void Execute(const CoordinatorPtr& c, const protocol::RemoveCheckpoint& a);
  void Execute(const CoordinatorPtr& c, const protocol::VerifyCheckpoint& a);
  // ---- servers and members
  void Execute(const ProcessPtr& p, const protocol::LoadSlices& a);
  void Execute(const ProcessPtr& p, const protocol::SaveShard& a);

  // The values of all slices in the newest checkpoint, in table order; false if there is none.
  bool Saved(std::vector<float>* values) const;

 private:
  Duration TransferTime(uint64_t bytes) const;
  void Check(const protocol::Manifest& manifest);
};

}  // namespace leat::sim

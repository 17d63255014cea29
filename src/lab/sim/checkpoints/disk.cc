#include "lab/sim/checkpoints/disk.h"

#include <cstring>
#include <iterator>

#include "protocol/guards.h"

namespace leat::sim {

using namespace protocol;

Slice CopyOf(const Slice& slice) {
  Slice copy = slice;
  if (!slice.memory) return copy;
  copy.memory = Buffer(slice.memory.size());
  std::memcpy(copy.memory.data(), slice.memory.data(), slice.memory.size());
  return copy;
}

uint64_t Disk::Claim() {
  std::erase_if(files_, [this](const auto& entry) {
    return std::ranges::none_of(
        manifests_, [&](const auto& manifest) { return manifest.second.directory == entry.first; });
  });
  return ++term_;
}

bool Disk::Append(uint64_t term, const JournalRecord& record) {
  if (!Confirm(term)) return false;
  if (term < term_)
    return true;  // only in the mutant without the check: it is behind the seal, for nobody to read
  journal_.push_back(record);
  if (const auto* made = std::get_if<CutsMade>(&record)) {
    for (const Cut& cut : made->cuts) Know(cut);
  } else if (const auto* round = std::get_if<RoundMade>(&record)) {
    for (; !all_rounds_.empty() && all_rounds_.back().first_step >= round->first_step; ++rounds_remade_)
      all_rounds_.pop_back();
    all_rounds_.push_back(*round);
    for (const RoundMade::Lane& part : round->lanes) Know(part.cut);
  } else if (const auto* raised = std::get_if<RateRaised>(&record)) {
    all_raised_.push_back(*raised);
  } else if (const auto* lanes = std::get_if<LanesSet>(&record)) {
    all_lanes_.push_back(*lanes);
  } else if (const auto* began = std::get_if<StreamStart>(&record)) {
    start_ = began->start;
  }
  return true;
}

bool Disk::Confirm(uint64_t term) const {
  return guards::Unsealed(term < term_);
}

bool Disk::IsJournaled(const Cut& cut) const {
  const auto at = known_.find({cut.partition, cut.begin});
  return at != known_.end() && at->second == cut;
}

// A leftover of a former round comes with a known cut.
void Disk::Know(const Cut& cut) {
  if (known_.try_emplace({cut.partition, cut.begin}, cut).second) all_cuts_.push_back(cut);
}

CheckpointOrder Disk::Prepare(uint64_t id, const std::string& host) {
  CheckpointOrder order{id, host + "checkpoint-" + std::to_string(id)};
  last_checkpoint_ = std::max(last_checkpoint_, id);
  files_[order.directory].clear();
  return order;
}

bool Disk::Commit(uint64_t term, const Manifest& manifest) {
  if (term < term_) return false;
  manifests_[manifest.id] = manifest;
  return true;
}

// Drops as much as allowed: whole checkpoints; cuts, raised rates and label marks before the watermark; and
// what later records replace.
bool Disk::Drop(uint64_t term, uint64_t oldest_kept, const std::vector<Position>& watermark) {
  if (term < term_) return false;
  while (!manifests_.empty() && manifests_.begin()->first < oldest_kept) {
    files_.erase(manifests_.begin()->second.directory);
    manifests_.erase(manifests_.begin());
  }
  DropMarksBefore(watermark, &journal_);
  DropReplaced(&journal_);
  for (JournalRecord& record : journal_) {
    if (auto* made = std::get_if<CutsMade>(&record)) {
      std::erase_if(made->cuts, [&](const Cut& cut) { return cut.next() <= watermark[cut.partition]; });
    }
  }
  std::erase_if(journal_, [&](const JournalRecord& record) {
    const auto* made = std::get_if<CutsMade>(&record);
    const auto* raised = std::get_if<RateRaised>(&record);
    return (made && made->cuts.empty()) || (raised && raised->Before(watermark));
  });
  DropUnusedLanes(&journal_);
  return true;
}

bool Disk::CopyFiles(const std::string& from, const std::string& to) {
  const auto files = files_.find(from);
  if (files == files_.end()) return false;
  auto copy = files->second;
  files_[to] = std::move(copy);
  return true;
}

bool Disk::Remove(uint64_t term, uint64_t id) {
  if (term < term_) return false;
  files_.erase("checkpoint-" + std::to_string(id));
  manifests_.erase(id);
  return true;
}

Status Disk::Verify(uint64_t term, uint64_t id) {
  if (term < term_) return Status(Code::kStale, "another coordinator has claimed a term");
  const auto at = manifests_.find(id);
  if (at == manifests_.end() || !damaged_.contains(at->second.directory)) return {};
  const Status damaged(Code::kDataLoss, at->second.directory + " is damaged");
  manifests_.erase(at);
  ++found_damaged_;
  return damaged;
}

void Disk::DamageNewest() {
  if (manifests_.size() < 2) return;
  const auto last = std::prev(manifests_.end());
  if (!damaged_.contains(std::prev(last)->second.directory)) damaged_.insert(last->second.directory);
}

RecoveredState Disk::Restore() {
  RecoveredState restored;
  restored.last_checkpoint = last_checkpoint_;
  found_damaged_ += std::erase_if(
      manifests_, [this](const auto& entry) { return damaged_.contains(entry.second.directory); });
  if (newest()) restored.manifest = *newest();
  restored.journal = journal_;
  return restored;
}

void Disk::Write(const std::string& directory, const std::string& file, const Shard& shard) {
  if (!files_.contains(directory)) return;
  Shard& written = files_[directory][file];
  written.clear();
  for (const auto& slice : shard) written.push_back(std::make_shared<const Slice>(CopyOf(*slice)));
}

Result<Slice> Disk::Read(const std::string& directory, const std::string& file, SliceId slice) const {
  if (damaged_.contains(directory)) return Status(Code::kDataLoss, directory + " is damaged");
  const auto there = files_.find(directory);
  if (there == files_.end()) return Status(Code::kNotFound, "no directory " + directory);
  const auto shard = there->second.find(file);
  if (shard == there->second.end()) return Status(Code::kNotFound, "no file " + file);
  for (const auto& saved : shard->second) {
    if (saved->id == slice) return CopyOf(*saved);
  }
  return Status(Code::kNotFound, "slice " + ToString(slice) + " is not in " + file);
}

}  // namespace leat::sim

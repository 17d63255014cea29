#include "lab/sim/checkpoints/disk.h"

#include <cstring>
#include <iterator>

#include "lab/sim/cluster/concerns.h"
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

// ---- how processes use it

void CheckpointFiles::Execute(const CoordinatorPtr& c, const PrepareCheckpoint& a) {
  ScheduleIn(c, DiskTakes(), [this, c, id = a.id] {
    Result<CheckpointOrder> order = Status(Code::kResourceExhausted, "the disk is full");
    if (!Chance(options_.faults.full_disk))
      order = all_.disk.Prepare(id, c->own ? std::to_string(c->address) + "/" : "");
    all_.coordinators.Execute(c, c->machine->OnCheckpointPrepared(now(), id, std::move(order)));
  });
}

void CheckpointFiles::Execute(const CoordinatorPtr& c, const CommitManifest& a) {
  ScheduleIn(c, DiskTakes(), [this, c, manifest = a.manifest] {
    if (all_.faults.CoordinatorDiesAt(DeathPoint::kBeforeManifest, c)) return;
    const Faults& faults = options_.faults;
    Status status;
    if (Chance(faults.full_disk)) status = Status(Code::kResourceExhausted, "the disk is full");
    // A failed one may be complete on disk all the same.
    if (status.ok() || rng_.Chance(0.5)) {
      if (c->own) {
        all_.hosts.CommitManifest(*c, manifest);
      } else if (!all_.disk.Commit(c->term, manifest)) {
        return all_.coordinators.OnReplaced(c);
      }
      if (options_.check) Check(manifest);
      ++result_.checkpoints;
      if (Chance(faults.damaged)) all_.disk.DamageNewest();
    }
    if (all_.faults.CoordinatorDiesAt(DeathPoint::kManifestSaved, c)) return;
    // A crash in between leaves a checkpoint that was never announced.
    ScheduleIn(c, DiskTakes(), [this, c, id = manifest.id, status] {
      all_.coordinators.Execute(c, c->machine->OnManifestCommitted(now(), id, status));
    });
  });
}

void CheckpointFiles::Execute(const CoordinatorPtr& c, const DropCheckpoints& a) {
  if (!c->own && !all_.disk.Drop(c->term, a.oldest_kept, a.watermark)) all_.coordinators.OnReplaced(c);
}

void CheckpointFiles::Execute(const CoordinatorPtr& c, const RemoveCheckpoint& a) {
  if (!c->own && !all_.disk.Remove(c->term, a.id)) all_.coordinators.OnReplaced(c);
}

void CheckpointFiles::Execute(const CoordinatorPtr& c, const VerifyCheckpoint& a) {
  ScheduleIn(c, DiskTakes(), [this, c, id = a.id] {
    const Status status = c->own ? Status() : all_.disk.Verify(c->term, id);
    if (status.code() == Code::kStale) return all_.coordinators.OnReplaced(c);
    all_.coordinators.Execute(c, c->machine->OnCheckpointVerified(now(), id, status));
  });
}

Duration CheckpointFiles::TransferTime(uint64_t bytes) const {
  const double rate = options_.disk_bytes_per_s;
  return rate > 0 ? FromSeconds(static_cast<double>(bytes) / rate) : Duration(0);
}

void CheckpointFiles::Execute(const ProcessPtr& p, const LoadSlices& a) {
  result_.loads += a.orders.size();
  Duration read{0};
  for (const SliceOrder& order : a.orders) {
    if (!order.file.empty()) read += TransferTime(world_.slice_ranges[order.slice.value].bytes());
    ScheduleIn(p, read + DiskTakes(), [this, p, incarnation = p->incarnation, order] {
      if (incarnation != p->incarnation) return;
      Result<Slice> slice = Status(Code::kUnavailable, "the disk does not answer");
      if (!Chance(options_.faults.unreadable))
        slice = all_.disk.Read(order.directory, order.file, order.slice);
      if (options_.check && slice.ok())
        all_.slice_check.OnLoaded(order.slice, order.incarnation, slice->ledger.partitions());
      if (p->group_member)
        return all_.members.ExecuteAll(p, p->group_member->machine->OnSliceLoaded(order, std::move(slice)));
      p->server->OnSliceLoaded(order, std::move(slice));
      all_.servers.Advance(p);
      all_.members.MaybeSendHeartbeat(p);
    });
  }
}

void CheckpointFiles::Execute(const ProcessPtr& p, const SaveShard& a) {
  uint64_t bytes = 0;
  for (const auto& slice : a.slices) bytes += world_.slice_ranges[slice->id.value].bytes();
  ScheduleIn(p, TransferTime(bytes) + 3 * DiskTakes(), [this, p, incarnation = p->incarnation, a] {
    if (incarnation != p->incarnation || all_.faults.DiesAt(DeathPoint::kBeforeShard, p)) return;
    ShardReport report;
    report.checkpoint = a.order.id;
    report.file = "shard-" + ToString(p->node);
    if (Chance(options_.faults.full_disk)) {
      report.status = Status(Code::kResourceExhausted, "the disk is full");
    } else {
      all_.disk.Write(a.order.directory, report.file, a.slices);
    }
    if (all_.faults.DiesAt(DeathPoint::kShardSaved, p)) return;
    if (p->server) {
      p->server->OnShardSaved(std::move(report));
    } else {
      p->group_member->machine->OnShardSaved(std::move(report));
    }
    all_.members.MaybeSendHeartbeat(p);
  });
}

void CheckpointFiles::Check(const Manifest& manifest) {
  std::vector<uint32_t> copies(options_.table.slices.size(), 0);
  const auto wrong = [&](const std::string& what) {
    Violate(Invariant::kCheckpointsWhole, manifest.directory + ": " + what);
  };
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      const auto slice = all_.disk.Read(manifest.directory, shard.file, incarnation.slice);
      if (!slice.ok()) return wrong(slice.status().ToString());
      if (incarnation.slice.value < copies.size()) ++copies[incarnation.slice.value];
      if (auto lacks = Lacks(slice->ledger.partitions(), manifest.watermark); !lacks.empty())
        return wrong(NameOf(incarnation.slice) + ": " + lacks);
    }
  }
  for (uint32_t i = 0; i < copies.size(); ++i) {
    if (copies[i] != 1)
      return wrong(NameOf(SliceId(i)) + " is there " + std::to_string(copies[i]) + " times");
  }
}

bool CheckpointFiles::Saved(std::vector<float>* values) const {
  values->assign(world_.elements, 0);
  const Manifest* newest = all_.disk.newest();
  if (newest == nullptr || world_.modelled) return false;
  for (const ManifestShard& shard : newest->shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      const auto slice = all_.disk.Read(newest->directory, shard.file, incarnation.slice);
      if (!slice.ok()) return false;
      const ElementRange& range = world_.slice_ranges[incarnation.slice.value];
      std::ranges::copy(slice->values(), values->begin() + static_cast<std::ptrdiff_t>(range.begin));
    }
  }
  return true;
}

}  // namespace leat::sim

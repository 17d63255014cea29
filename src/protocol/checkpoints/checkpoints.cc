#include "protocol/checkpoints/checkpoints.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include "protocol/guards.h"
#include "protocol/records/journal.h"

namespace leat::protocol {

namespace {

// Throws std::invalid_argument if it does not have each slice once, or is of another stream.
void CheckManifest(const Manifest& manifest, size_t slices, size_t partitions) {
  if (manifest.watermark.size() != partitions) {
    throw std::invalid_argument("checkpoint " + std::to_string(manifest.id) + " has " +
                                std::to_string(manifest.watermark.size()) + " partitions; the stream has " +
                                std::to_string(partitions));
  }
  std::vector<int> copies(slices, 0);
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      if (incarnation.slice.value >= slices || ++copies[incarnation.slice.value] > 1) {
        throw std::invalid_argument("checkpoint " + std::to_string(manifest.id) + " has slice " +
                                    ToString(incarnation.slice) +
                                    " twice, or the job does not have it: " + shard.file);
      }
    }
  }
  const auto lacking = std::find(copies.begin(), copies.end(), 0);
  if (lacking != copies.end()) {
    throw std::invalid_argument("checkpoint " + std::to_string(manifest.id) + " lacks slice " +
                                std::to_string(lacking - copies.begin()));
  }
}

}  // namespace

void KeptCheckpoints::Add(Manifest manifest) {
  const uint64_t id = manifest.id;
  newest_ = kept_[id] = std::move(manifest);
  while (kept_.size() > std::max(keep_, 1u)) kept_.erase(kept_.begin());
}

uint64_t KeptCheckpoints::bytes() const {
  uint64_t bytes = 0;
  for (const ManifestShard& shard : newest_->shards) bytes += shard.bytes;
  return bytes;
}

bool KeptCheckpoints::Suspect(const Status& why) {
  if (!newest_) return false;
  if (!suspicion_) {
    suspicion_ = {newest_->id, {}};
    const auto at = kept_.find(newest_->id);
    std::optional<Manifest> before;
    if (at != kept_.begin()) before = std::prev(at)->second;
    outbox_.Request(VerifyCheckpoint{newest_->id, std::move(before)});
  }
  if (suspicion_->why.ok()) suspicion_->why = why;
  return true;
}

KeptCheckpoints::Verdict KeptCheckpoints::OnVerified(uint64_t id, const Status& status, bool stopping) {
  if (!suspicion_ || suspicion_->checkpoint != id) return {};
  const Status why = std::exchange(suspicion_, std::nullopt)->why;
  if (stopping) return {};
  if (status.code() != Code::kDataLoss) {
    // Whatever else it is, another checkpoint would not be read either.
    return {.end = newest_->id == id ? why : Status()};
  }
  kept_.erase(id);
  damage_ += PassedOver(status);
  if (kept_.empty()) return {.end = Status(Code::kDataLoss, damage_ + "this run has made none")};
  if (newest_->id != id) return {};  // a newer one has taken its place
  newest_ = kept_.rbegin()->second;
  return {.replaced = true};
}

Checkpoints::Checkpoints(const CheckpointSettings& settings, SliceTransfers* transfers,
                         SlicePlacement* placement, Leases* leases, MemberGroups* groups, Roster* roster,
                         Outbox* outbox)
    : settings_(settings),
      transfers_(*transfers),
      placement_(*placement),
      slices_(placement->map()),
      leases_(*leases),
      groups_(*groups),
      roster_(*roster),
      job_(roster->settings()),
      outbox_(*outbox),
      kept_(settings.keep_checkpoints, outbox) {}

// ---- from the journal and the disk

void Checkpoints::Restore(Manifest manifest) {
  CheckManifest(manifest, slices_.size(), leases_.cursors().size());
  outbox_.Restore({.node = 0, .lease = manifest.next_incarnation});
  RestoreIds(manifest.id);
  slices_.SetSource(manifest);
  groups_.groups().SetSource(Time(0), manifest.step);
  if (job_.stepped() && manifest.step == 0 && manifest.events > 0) {
    throw std::invalid_argument("checkpoint " + std::to_string(manifest.id) +
                                " was not made at a step: strategy " + std::string(Name(job_.strategy.kind)) +
                                " cannot continue from it");
  }
  kept_.Add(std::move(manifest));
}

// ---- the next checkpoint

void Checkpoints::OnCommand(Time now, uint64_t call) {
  if (!pending_ && !slices_.ready())
    return outbox_.Answer(call, AdminReply{Status(Code::kUnavailable, "not all slices are live")});
  calls_.push_back(call);
  if (!pending_) Start(now, false);
}

void Checkpoints::Start(Time now, bool final) {
  leases_.AbandonLaneChange(now);
  Pending made;
  made.id = ++last_id_;
  outbox_.Journal(CheckpointBegun{made.id});
  made.final = final;
  made.deadline = now + Timeout();
  outbox_.Request(PrepareCheckpoint{made.id, EstimateBytes(), slices_.Watermarks()});
  pending_ = std::move(made);
}

void Checkpoints::OnPrepared(Time now, uint64_t id, const Result<CheckpointOrder>& order, bool stopping) {
  if (!preparing() || pending_->id != id) return;
  if (!order.ok()) return GiveUp(now, order.status());
  pending_->order = *order;
  pending_->order.id = id;
  pending_->prepared = true;
  // Each slice is to be on one server while it is saved. Slices that are frozen already will have moved soon.
  transfers_.CancelUnfrozen(now);
  if (!transfers_.active()) BeginSaving(now, stopping);
}

void Checkpoints::BeginSaving(Time now, bool stopping) {
  if (!slices_.ready()) return GiveUp(now, HolderLost());
  Manifest& manifest = pending_->manifest;
  pending_->stage = Pending::Stage::kSaving;
  manifest.id = pending_->id;
  manifest.directory = pending_->order.directory;
  manifest.watermark = slices_.Watermarks();
  manifest.open = leases_.queue().Open(slices_.Watermarks());
  manifest.events = slices_.Events();
  pending_->incarnations = slices_.Incarnations();
  if (!job_.stepped()) return;
  const uint64_t step =
      stopping && !job_.all_reduce() ? slices_.Version() : leases_.rounds().sequence().Untouched();
  pending_->order.version = manifest.step = step;
  leases_.rounds().Suspend(Suspension::kCheckpoint, step);
  outbox_.ChangeView();
  pending_->generation = outbox_.RefreshView()->generation;
}

bool Checkpoints::OrderKnown() const {
  return std::ranges::all_of(roster_.heartbeats(), [&](const auto& heartbeat) {
    return roster_.At(heartbeat.first).generation >= pending_->generation || !slices_.Holds(heartbeat.first);
  });
}

bool Checkpoints::IncarnationsUnchanged() const {
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    if (slices_.At(SliceId(i)).server == NodeId()) return false;
    if (!guards::SameIncarnation(pending_->incarnations[i], slices_.At(SliceId(i)).incarnation)) return false;
  }
  return true;
}

Status Checkpoints::HolderLost() const {
  return {Code::kUnavailable,
          job_.all_reduce() ? "the workers have formed a new group" : "a server was lost"};
}

void Checkpoints::OnShard(Time now, NodeId server, const ShardReport& report) {
  if (!saving() || report.checkpoint != pending_->id) return;
  if (!report.status.ok()) return GiveUp(now, report.status);
  pending_->shards[server] = report;
}

std::optional<CheckpointOrder> Checkpoints::OrderFor(NodeId server) const {
  if (!saving() || pending_->shards.contains(server)) return std::nullopt;
  const std::vector<bool> saved = Saved();
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    if (slices_.At(SliceId(i)).server == server && !saved[i]) return pending_->order;
  }
  return std::nullopt;
}

std::vector<bool> Checkpoints::Saved() const {
  std::vector<bool> saved(slices_.size(), false);
  for (const auto& [server, report] : pending_->shards) {
    for (const auto& [slice, incarnation] : report.slices) {
      if (slice.value < slices_.size() && guards::SameIncarnation(incarnation, slices_.At(slice).incarnation))
        saved[slice.value] = true;
    }
  }
  return saved;
}

std::optional<std::vector<bool>> Checkpoints::SavedSlices() const {
  return saving() ? std::optional(Saved()) : std::nullopt;
}

void Checkpoints::OnServerLost(Time now, NodeId server) {
  if (!saving()) return;
  const std::vector<bool> saved = Saved();
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    // Its next server may have reported its shard already.
    if (slices_.At(SliceId(i)).server == server && !saved[i]) return GiveUp(now, HolderLost());
  }
}

void Checkpoints::Advance(Time now, bool may_begin, bool stopping) {
  if (!pending_) {
    if (may_begin && settings_.checkpoint_interval > Duration(0) && slices_.ready()) {
      if (!next_at_) next_at_ = now + settings_.checkpoint_interval;
      if (now >= std::max(*next_at_, retry_at_)) Start(now, false);
    }
    return;
  }
  if (pending_->stage == Pending::Stage::kCommitting) return;
  if (job_.stepped() && saving()) {
    if (leases_.rounds().suspended_from(Suspension::kCheckpoint) && OrderKnown())
      leases_.rounds().Resume(now, Suspension::kCheckpoint);
    // The step to be saved may take any time to come.
    if (slices_.Version() < pending_->order.version) pending_->deadline = now + Timeout();
  }
  if (now >= pending_->deadline) {
    return GiveUp(now, Status(Code::kDeadlineExceeded,
                              "checkpoint " + std::to_string(pending_->id) + " took longer than " +
                                  std::to_string(static_cast<int64_t>(Seconds(Timeout()))) +
                                  " s, waiting for " + WaitsFor()));
  }
  if (preparing() && pending_->prepared && !transfers_.active()) BeginSaving(now, stopping);
  if (!saving()) return;
  if (!IncarnationsUnchanged()) return GiveUp(now, HolderLost());
  CommitIfComplete();
}

void Checkpoints::CommitIfComplete() {
  // Each slice from one shard, of the server that has it or of the one that had it when it was saved.
  std::vector<ManifestShard> shards;
  std::vector<bool> saved(slices_.size(), false);
  for (const auto& [server, report] : pending_->shards) {
    ManifestShard shard{report.file, report.bytes, report.checksum, {}};
    for (const SliceIncarnation& which : report.slices) {
      if (which.slice.value >= slices_.size() || saved[which.slice.value]) continue;
      if (!guards::SameIncarnation(which.incarnation, slices_.At(which.slice).incarnation)) continue;
      saved[which.slice.value] = true;
      shard.slices.push_back(which);
    }
    if (!shard.slices.empty()) shards.push_back(std::move(shard));
  }
  if (std::ranges::find(saved, false) != saved.end()) return;
  pending_->manifest.shards = std::move(shards);
  pending_->manifest.next_incarnation = outbox_.reserved_ids();
  pending_->stage = Pending::Stage::kCommitting;
  outbox_.Request(CommitManifest{pending_->manifest});
}

const Manifest* Checkpoints::OnCommitted(Time now, uint64_t id, const Status& status) {
  if (!pending_ || pending_->id != id || pending_->stage != Pending::Stage::kCommitting) return nullptr;
  if (!status.ok()) {
    GiveUp(now, status);
    return nullptr;
  }
  const bool lost = !IncarnationsUnchanged();
  kept_.Add(std::move(pending_->manifest));
  const Manifest& durable = *newest();
  slices_.SetSource(durable);
  if (job_.all_reduce()) {
    groups_.groups().SetSource(now, durable.step);
  } else if (slices_.RestoreAgain(pending_->incarnations)) {
    // A slice lost while the manifest was written would be restored from an older checkpoint, whose splits
    // are about to be forgotten.
    outbox_.ChangeView();
  }
  const Manifest& oldest = kept_.oldest();
  leases_.DropBefore(oldest.watermark, oldest.step);
  if (job_.stepped()) {
    if (lost && !job_.all_reduce()) leases_.rounds().Rollback(durable.step);
    leases_.rounds().Resume(now, Suspension::kCheckpoint);
  }
  if (pending_->final) final_done_ = true;
  pending_.reset();
  failed_in_a_row_ = 0;
  failure_ = Status();
  next_at_ = now + settings_.checkpoint_interval;
  leases_.cursors().rates().DropBefore(oldest.watermark);
  AnswerCalls(Status());
  return &oldest;
}

void Checkpoints::GiveUp(Time now, const Status& why) {
  AnswerCalls(why);
  Abandon(now);
  ++failed_;
  failure_ = why;
  // The loss of a server is no reason to wait for longer.
  constexpr uint32_t kMaxDoublings = 5;
  failed_in_a_row_ = why.code() == Code::kUnavailable ? 1 : std::min(failed_in_a_row_, kMaxDoublings) + 1;
  retry_at_ = now + (10 << (failed_in_a_row_ - 1)) * BusyInterval(job_.heartbeat_interval);
}

// Drops the pending checkpoint; removing its files frees their space.
void Checkpoints::Abandon(Time now) {
  outbox_.Request(RemoveCheckpoint{pending_->id});
  pending_.reset();
  leases_.rounds().Resume(now, Suspension::kCheckpoint);
}

void Checkpoints::AbandonUncommitted(Time now) {
  if (pending_ && pending_->stage != Pending::Stage::kCommitting) Abandon(now);
}

void Checkpoints::AnswerCalls(const Status& status) {
  for (const uint64_t call : calls_) outbox_.Answer(call, AdminReply{status});
  calls_.clear();
}

// ---- a damaged checkpoint

Status Checkpoints::OnVerified(uint64_t id, const Status& status, bool stopping) {
  const KeptCheckpoints::Verdict verdict = kept_.OnVerified(id, status, stopping);
  if (!verdict.replaced) return verdict.end;
  failure_ = status;
  slices_.SetSource(*newest());
  outbox_.ChangeView();
  if (job_.all_reduce()) {
    groups_.groups().RestartFrom(newest()->step);
  } else if (!job_.stepped()) {
    slices_.RestoreUnfinished();
  } else {
    slices_.RestoreAll();
    leases_.RollBack();
  }
  return {};
}

// ---- questions

uint64_t Checkpoints::EstimateBytes() const {
  if (newest()) return kept_.bytes();
  uint64_t bytes = 0;
  for (const SliceSpec& slice : placement_.settings().table.slices) bytes += slice.elements() * sizeof(float);
  return bytes;
}

Duration Checkpoints::Timeout() const {
  constexpr uint64_t kMaxCopies = 3;  // values and two slots of the optimizer
  const uint64_t bytes = newest() ? EstimateBytes() : kMaxCopies * EstimateBytes();
  return settings_.checkpoint_timeout + std::chrono::seconds(bytes / kSlowestDisk);
}

std::string Checkpoints::WaitsFor() const {
  if (preparing()) return "its directory";
  if (pending_->stage == Pending::Stage::kCommitting) return "its manifest";
  if (job_.stepped() && slices_.Version() < pending_->order.version) {
    return "step " + std::to_string(pending_->order.version) + ", training is at step " +
           std::to_string(slices_.Version());
  }
  std::string holders;
  for (const Member& member : outbox_.view()->members) {
    if (!OrderFor(member.node)) continue;
    holders += (holders.empty() ? "" : ", ") + Name(member);
  }
  return holders.empty() ? "slices to become live" : "the shards of " + holders;
}

Status Checkpoints::WithResumption(const Status& why) const {
  return {why.code(), why.message() + "; " +
                          (newest() ? "--resume continues from " + newest()->directory
                                    : std::string("there is no checkpoint to resume from"))};
}

CheckpointRows Checkpoints::rows() const {
  CheckpointRows rows;
  rows.failed_checkpoints = failed_;
  rows.checkpoint_failure = failure_.message();
  if (newest()) {
    rows.checkpoint = newest()->id;
    rows.checkpoint_directory = newest()->directory;
  }
  if (pending_) {
    rows.saving = {.id = pending_->id,
                   .directory = pending_->order.directory,
                   .waiting_for = WaitsFor(),
                   .limit = Timeout()};
  }
  return rows;
}

}  // namespace leat::protocol

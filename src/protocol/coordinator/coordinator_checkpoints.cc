// Checkpoints: the watermark is recorded first, then each server saves its slices at its own time.
#include <algorithm>
#include <iterator>
#include <utility>

#include "protocol/coordinator/coordinator_state.h"
#include "protocol/guards.h"

namespace leat::protocol {

std::string PassedOver(const Status& why) {
  return why.message() + "; the checkpoint before it cannot be used either: ";
}

void Coordinator::State::StartCheckpoint(Time now, bool final) {
  AbandonLaneChange(now);
  PendingCheckpoint made;
  made.id = ++last_checkpoint_id;
  journals.push_back({CheckpointBegun{made.id}});
  made.final = final;
  made.deadline = now + CheckpointTimeout();
  later.emplace_back(PrepareCheckpoint{made.id, CheckpointBytes(), slices.Watermarks()});
  pending = std::move(made);
}

void Coordinator::State::OnPrepared(Time now, uint64_t id, const Result<CheckpointOrder>& order) {
  if (!pending || pending->id != id || pending->stage != PendingCheckpoint::Stage::kPreparing) return;
  if (!order.ok()) return GiveUpCheckpoint(now, order.status());
  pending->order = *order;
  pending->order.id = id;
  pending->prepared = true;
  // Each slice is to be on one server while it is saved. Slices that are frozen already will have moved soon.
  if (moves.active() && !moves.active()->frozen) moves.Cancel(now, false);
  if (!moves.active()) BeginSaving(now);
}

void Coordinator::State::BeginSaving(Time now) {
  if (!slices.ready()) return GiveUpCheckpoint(now, HolderLost());
  pending->stage = PendingCheckpoint::Stage::kSaving;
  pending->manifest.id = pending->id;
  pending->manifest.directory = pending->order.directory;
  pending->manifest.watermark = slices.Watermarks();
  pending->manifest.open = Queue().Open(slices.Watermarks());
  pending->manifest.events = slices.Events();
  pending->incarnations = slices.Incarnations();
  if (!Stepped()) return;
  const uint64_t step = stop_requested && !AllReduce() ? slices.Version() : rounds.Untouched();
  pending->order.version = pending->manifest.step = step;
  rounds.Hold(step);
  view_changed = true;
  RefreshView();
  pending->generation = view->generation;
}

bool Coordinator::State::OrderKnown() const {
  return std::all_of(heartbeat_counts.begin(), heartbeat_counts.end(), [&](const auto& heartbeat) {
    return members.at(heartbeat.first).generation >= pending->generation || !slices.Holds(heartbeat.first);
  });
}

// True if the slices are still those of the watermark. A new incarnation may have fewer events than the
// watermark promises.
bool Coordinator::State::IncarnationsUnchanged() const {
  for (uint32_t i = 0; i < slices.size(); ++i) {
    if (slices.ServerOf(SliceId(i)) == NodeId()) return false;
    if (!guards::SameIncarnation(pending->incarnations[i], slices.IncarnationOf(SliceId(i)))) return false;
  }
  return true;
}

Status Coordinator::State::HolderLost() const {
  return {Code::kUnavailable, AllReduce() ? "the workers have formed a new group" : "a server was lost"};
}

void Coordinator::State::OnShard(Time now, NodeId server, const ShardReport& report) {
  if (!pending || pending->stage != PendingCheckpoint::Stage::kSaving || report.checkpoint != pending->id)
    return;
  if (!report.status.ok()) return GiveUpCheckpoint(now, report.status);
  pending->shards[server] = report;
}

std::optional<CheckpointOrder> Coordinator::State::CheckpointOrderFor(NodeId server) const {
  if (!pending || pending->stage != PendingCheckpoint::Stage::kSaving) return std::nullopt;
  if (pending->shards.contains(server)) return std::nullopt;
  const std::vector<bool> saved = Saved();
  for (uint32_t i = 0; i < slices.size(); ++i) {
    if (slices.ServerOf(SliceId(i)) == server && !saved[i]) return pending->order;
  }
  return std::nullopt;
}

std::vector<bool> Coordinator::State::Saved() const {
  std::vector<bool> saved(slices.size(), false);
  for (const auto& [server, report] : pending->shards) {
    for (const auto& [slice, incarnation] : report.slices) {
      if (slice.value < slices.size() && guards::SameIncarnation(incarnation, slices.IncarnationOf(slice)))
        saved[slice.value] = true;
    }
  }
  return saved;
}

void Coordinator::State::StepCheckpoint(Time now) {
  if (!pending) {
    if (ending == Ending::kNone && config.checkpoint_interval > Duration(0) && slices.ready()) {
      if (!next_checkpoint) next_checkpoint = now + config.checkpoint_interval;
      if (now >= std::max(*next_checkpoint, retry_checkpoint)) StartCheckpoint(now, false);
    }
    return;
  }
  if (pending->stage == PendingCheckpoint::Stage::kCommitting) return;
  if (Stepped() && pending->stage == PendingCheckpoint::Stage::kSaving) {
    if (rounds.held() && OrderKnown()) rounds.LiftHold(now);
    // The step to be saved may take any time to come.
    if (slices.Version() < pending->order.version) pending->deadline = now + CheckpointTimeout();
  }
  if (now >= pending->deadline) {
    return GiveUpCheckpoint(now,
                            Status(Code::kDeadlineExceeded,
                                   "checkpoint " + std::to_string(pending->id) + " took longer than " +
                                       std::to_string(static_cast<int64_t>(Seconds(CheckpointTimeout()))) +
                                       " s, waiting for " + CheckpointWaitsFor()));
  }
  if (pending->stage == PendingCheckpoint::Stage::kPreparing && pending->prepared && !moves.active())
    BeginSaving(now);
  if (!pending || pending->stage != PendingCheckpoint::Stage::kSaving) return;
  if (!IncarnationsUnchanged()) return GiveUpCheckpoint(now, HolderLost());

  // Each slice from one shard, of the server that has it or of the one that had it when it was saved.
  std::vector<ManifestShard> shards;
  std::vector<bool> saved(slices.size(), false);
  for (const auto& [server, report] : pending->shards) {
    ManifestShard shard{report.file, report.bytes, report.checksum, {}};
    for (const SliceIncarnation& slice_incarnation : report.slices) {
      if (slice_incarnation.slice.value >= slices.size() || saved[slice_incarnation.slice.value]) continue;
      if (!guards::SameIncarnation(slice_incarnation.incarnation,
                                   slices.IncarnationOf(slice_incarnation.slice)))
        continue;
      saved[slice_incarnation.slice.value] = true;
      shard.slices.push_back(slice_incarnation);
    }
    if (!shard.slices.empty()) shards.push_back(std::move(shard));
  }
  if (std::find(saved.begin(), saved.end(), false) != saved.end()) return;
  pending->manifest.shards = std::move(shards);
  pending->manifest.next_incarnation = ids.reserved;
  pending->stage = PendingCheckpoint::Stage::kCommitting;
  later.emplace_back(CommitManifest{pending->manifest});
}

void Coordinator::State::OnCommitted(Time now, uint64_t id, const Status& status) {
  if (!pending || pending->id != id || pending->stage != PendingCheckpoint::Stage::kCommitting) return;
  if (!status.ok()) return GiveUpCheckpoint(now, status);
  const bool lost = !IncarnationsUnchanged();
  durable = kept[id] = std::move(pending->manifest);
  while (kept.size() > std::max(config.keep_checkpoints, 1u)) kept.erase(kept.begin());
  slices.SetSource(*durable);
  if (AllReduce()) {
    groups.SetSource(now, durable->step);
  } else if (slices.RestoreAgain(pending->incarnations)) {
    // A slice lost while the manifest was written would be restored from an older checkpoint, whose splits
    // are about to be forgotten.
    view_changed = true;
  }
  // The oldest kept checkpoint may take the place of this one.
  const Manifest& oldest = kept.begin()->second;
  if (Stepped()) {
    rounds.DropBefore(oldest.watermark, oldest.step);
    if (lost && !AllReduce()) rounds.Rollback(durable->step);
    rounds.LiftHold(now);
  } else {
    splits.DropBefore(oldest.watermark);
  }
  if (pending->final) final_done = true;
  pending.reset();
  failed_in_a_row = 0;
  checkpoint_failure = Status();
  next_checkpoint = now + config.checkpoint_interval;

  const std::vector<Position> needed =
      publications.enabled() ? publications.Needed(oldest.watermark) : oldest.watermark;
  cursors.rates().DropBefore(oldest.watermark);
  cursors.ForgetMarks(needed);
  later.emplace_back(DropCheckpoints{oldest.id, needed});
  AnswerCheckpointCalls(Status());
}

bool Coordinator::State::Suspect(const Status& why) {
  if (!durable) return false;
  if (!suspicion) {
    suspicion = {durable->id, {}};
    const auto at = kept.find(durable->id);
    std::optional<Manifest> before;
    if (at != kept.begin()) before = std::prev(at)->second;
    later.emplace_back(VerifyCheckpoint{durable->id, std::move(before)});
  }
  if (suspicion->why.ok()) suspicion->why = why;
  return true;
}

// The newest checkpoint is damaged: slices are restored from the one before it. Slices that are live stay as
// they are, except in stepped strategies, where all must be at one step.
void Coordinator::State::OnVerified(Time now, uint64_t id, const Status& status) {
  if (!suspicion || suspicion->checkpoint != id) return;
  const Status why = std::exchange(suspicion, std::nullopt)->why;
  if (ending >= Ending::kStoppingMembers) return;
  if (status.code() != Code::kDataLoss) {
    // Whatever else it is, another checkpoint would not be read either.
    if (!why.ok() && durable->id == id) StopMembers(now, why);
    return;
  }
  kept.erase(id);
  damage += PassedOver(status);
  if (kept.empty()) return StopMembers(now, Status(Code::kDataLoss, damage + "this run has made none"));
  if (durable->id != id) return;  // a newer one has taken its place
  checkpoint_failure = status;
  durable = kept.rbegin()->second;
  slices.SetSource(*durable);
  view_changed = true;
  if (AllReduce()) return groups.RestartFrom(durable->step);
  if (!Stepped()) return slices.RestoreUnfinished();
  slices.RestoreAll();
  rounds.Rollback(slices.Version());
}

void Coordinator::State::GiveUpCheckpoint(Time now, const Status& why) {
  AnswerCheckpointCalls(why);
  AbandonCheckpoint(now);
  ++failed_checkpoints;
  checkpoint_failure = why;
  // The loss of a server is no reason to wait for longer.
  constexpr uint32_t kMaxDoublings = 5;
  failed_in_a_row = why.code() == Code::kUnavailable ? 1 : std::min(failed_in_a_row, kMaxDoublings) + 1;
  retry_checkpoint = now + (10 << (failed_in_a_row - 1)) * BusyInterval(config.heartbeat_interval);
}

// Drops the pending checkpoint; removing its files frees their space.
void Coordinator::State::AbandonCheckpoint(Time now) {
  later.emplace_back(RemoveCheckpoint{pending->id});
  pending.reset();
  rounds.LiftHold(now);
}

uint64_t Coordinator::State::CheckpointBytes() const {
  uint64_t bytes = 0;
  if (durable) {
    for (const ManifestShard& shard : durable->shards) bytes += shard.bytes;
  } else {
    for (const SliceSpec& slice : config.table.slices) bytes += slice.elements() * sizeof(float);
  }
  return bytes;
}

Duration Coordinator::State::CheckpointTimeout() const {
  constexpr uint64_t kMaxCopies = 3;  // values and two slots of the optimizer
  const uint64_t bytes = durable ? CheckpointBytes() : kMaxCopies * CheckpointBytes();
  return config.checkpoint_timeout + std::chrono::seconds(bytes / kSlowestDisk);
}

std::string Coordinator::State::CheckpointWaitsFor() const {
  if (pending->stage == PendingCheckpoint::Stage::kPreparing) return "its directory";
  if (pending->stage == PendingCheckpoint::Stage::kCommitting) return "its manifest";
  if (Stepped() && slices.Version() < pending->order.version) {
    return "step " + std::to_string(pending->order.version) + ", training is at step " +
           std::to_string(slices.Version());
  }
  std::string holders;
  for (const Member& member : view->members) {
    if (!CheckpointOrderFor(member.node)) continue;
    holders += (holders.empty() ? "" : ", ") + Name(member);
  }
  return holders.empty() ? "slices to become live" : "the shards of " + holders;
}

void Coordinator::State::AnswerCheckpointCalls(const Status& status) {
  for (uint64_t call : checkpoint_calls) Answer(call, AdminReply{status});
  checkpoint_calls.clear();
}

}  // namespace leat::protocol

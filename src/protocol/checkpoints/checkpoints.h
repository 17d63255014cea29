// The coordinator's half of the checkpoints: when one is made, what it contains, and what follows once it is
// durable. The watermark is recorded first, then each server saves its slices at its own time.
//
//   preparing ── its directory is made ──> saving ── all shards are there ──> committing ──> durable
//       └───────────────┴── GiveUp: a lost server, a disk error, a deadline ──────┘
//
// Invariants:
// - An id is journaled (CheckpointBegun) before anything of the checkpoint is made, and never comes again.
// - A manifest has each slice once, in the incarnation that it had when the watermark was recorded. A new
//   incarnation may have fewer events than the watermark promises, so the checkpoint is given up.
// - In stepped strategies all slices are saved at one step, and no step after it is leased before every
//   server knows the order.
// - No slice moves while a checkpoint is about to be saved.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/allreduce/member_groups.h"
#include "protocol/checkpoints/checkpoint_settings.h"
#include "protocol/leases/leases.h"
#include "protocol/outbox/outbox.h"
#include "protocol/slices.h"
#include "protocol/slices/slice_transfers.h"

namespace leat::protocol {

// The durable checkpoints that the coordinator keeps, and the verification of one that slices cannot be
// restored from.
//
// Invariants:
// - The newest checkpoint is the source that slices are restored from, until it is found damaged: then the
//   one before it is.
// - Every cut from the watermark of the oldest kept checkpoint on can be trained again.
// - At most one checkpoint is being verified.
class KeptCheckpoints {
 public:
  KeptCheckpoints(uint32_t keep, Outbox* outbox) : keep_(keep), outbox_(*outbox) {}

  const std::optional<Manifest>& newest() const { return newest_; }
  // May take the place of the newest one.
  const Manifest& oldest() const { return kept_.begin()->second; }
  // Adds one that is durable now, and forgets those that are too many.
  void Add(Manifest manifest);
  // Bytes of the newest one's shards.
  uint64_t bytes() const;

  // Slices cannot be restored, for this reason (ok: one of them, for the first time). Has the checkpoint that
  // they are restored from verified; false if there is none.
  bool Suspect(const Status& why);
  bool suspects() const { return suspicion_.has_value(); }
  struct Verdict {
    Status end;             // why the job ends; ok: it does not
    bool replaced = false;  // the checkpoint before it is the newest one now
  };
  // The verification has ended. `stopping`: the job ends anyway.
  Verdict OnVerified(uint64_t id, const Status& status, bool stopping);

 private:
  // The checkpoint that is being verified, and why the job ends if it is not damaged.
  struct Suspicion {
    uint64_t checkpoint = 0;
    Status why;
  };

  uint32_t keep_;
  Outbox& outbox_;
  std::optional<Manifest> newest_;
  std::map<uint64_t, Manifest> kept_;  // by id, of this run; the last is `newest_`
  std::optional<Suspicion> suspicion_;
  std::string damage_;  // PassedOver of each checkpoint that was passed over
};

class Checkpoints {
 public:
  Checkpoints(const CheckpointSettings& settings, SliceTransfers* transfers, SlicePlacement* placement,
              Leases* leases, MemberGroups* groups, Roster* roster, Outbox* outbox);

  const CheckpointSettings& settings() const { return settings_; }
  const std::optional<Manifest>& newest() const { return kept_.newest(); }  // durable
  bool suspects() const { return kept_.suspects(); }

  // ---- from the journal and the disk
  // Ids up to this one are taken.
  void RestoreIds(uint64_t last) { last_id_ = std::max(last_id_, last); }
  // Throws std::invalid_argument if the job cannot continue from it.
  void Restore(Manifest manifest);

  // ---- the next checkpoint
  // A command asks for one, or for the one that is being made.
  void OnCommand(Time now, uint64_t call);
  void Start(Time now, bool final);
  // `stopping`: the job has been told to stop.
  void OnPrepared(Time now, uint64_t id, const Result<CheckpointOrder>& order, bool stopping);
  void OnShard(Time now, NodeId server, const ShardReport& report);
  // Returns the oldest checkpoint that is kept, once this one is durable: what lies before it may be dropped.
  const Manifest* OnCommitted(Time now, uint64_t id, const Status& status);
  // Steps that are due: begins one by the interval if `may_begin`, goes on with it, or gives it up.
  void Advance(Time now, bool may_begin, bool stopping);
  // The server is no member any more, and its slices are still where they were.
  void OnServerLost(Time now, NodeId server);
  // Drops one that is not complete yet.
  void AbandonUncommitted(Time now);
  void RetryAt(Time time) { retry_at_ = time; }
  bool MayStart(Time now) const { return !pending_ && now >= retry_at_; }
  void AnswerCalls(const Status& status);

  // ---- a damaged checkpoint
  // As KeptCheckpoints::Suspect.
  bool Suspect(const Status& why) { return kept_.Suspect(why); }
  // Returns why the job ends; ok: it does not. If the newest checkpoint is damaged, slices are restored from
  // the one before it. Slices that are live stay as they are, except in stepped strategies, where all must be
  // at one step.
  Status OnVerified(uint64_t id, const Status& status, bool stopping);

  // ---- questions
  bool pending() const { return pending_.has_value(); }
  bool preparing() const { return pending_ && pending_->stage == Pending::Stage::kPreparing; }
  // By slice: it is in the checkpoint that is being saved, in its current incarnation.
  std::optional<std::vector<bool>> SavedSlices() const;
  // The order for a server whose shard is still missing.
  std::optional<CheckpointOrder> OrderFor(NodeId server) const;
  bool final_done() const { return final_done_; }     // the checkpoint requested by a stop is durable
  const Status& failure() const { return failure_; }  // the last one's
  // A reason why the job ends, with how it can be resumed.
  Status WithResumption(const Status& why) const;

  CheckpointRows rows() const;

 private:
  struct Pending {
    enum class Stage : uint8_t { kPreparing, kSaving, kCommitting } stage = Stage::kPreparing;
    uint64_t id = 0;
    bool final = false;
    Time deadline{0};
    CheckpointOrder order;
    bool prepared = false;  // its directory is made
    // Recorded before any server gets the save order.
    Manifest manifest;
    std::vector<Incarnation> incarnations;
    std::map<NodeId, ShardReport> shards;
    // Stepped strategies: servers with a view of this generation know the order. Steps from its version on
    // are not leased until all servers know it, so that none can be past it.
    Generation generation;
  };
  bool saving() const { return pending_ && pending_->stage == Pending::Stage::kSaving; }
  void BeginSaving(Time now, bool stopping);
  std::vector<bool> Saved() const;
  void CommitIfComplete();
  bool IncarnationsUnchanged() const;
  Status HolderLost() const;  // why a checkpoint is given up where that is false
  bool OrderKnown() const;
  void GiveUp(Time now, const Status& why);
  void Abandon(Time now);
  // The size of the next checkpoint, estimated from the last one or from the slices.
  uint64_t EstimateBytes() const;
  Duration Timeout() const;
  std::string WaitsFor() const;  // the one that is pending

  const CheckpointSettings& settings_;
  SliceTransfers& transfers_;
  SlicePlacement& placement_;
  SliceMap& slices_;
  Leases& leases_;
  MemberGroups& groups_;
  const Roster& roster_;
  const MemberSettings& job_;
  Outbox& outbox_;
  KeptCheckpoints kept_;
  std::optional<Pending> pending_;
  uint64_t last_id_ = 0;
  std::optional<Time> next_at_;  // by the interval
  Time retry_at_{0};             // after one that failed
  uint64_t failed_ = 0;
  uint32_t failed_in_a_row_ = 0;
  Status failure_;
  bool final_done_ = false;
  std::vector<uint64_t> calls_;
};

}  // namespace leat::protocol

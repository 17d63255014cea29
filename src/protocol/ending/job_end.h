// The end of the job: because the stream is finished, because a command stops it, or because it cannot go on.
//
//   running ── stop ──> draining ── no leases ──> final checkpoint ── durable ──> stopping members ──> ended
//      └──────────── the stream is finished ──────────┘
//
// Invariants:
// - A job that is finished ends with a checkpoint that has every event; a job that is stopped ends with one
//   of what was trained. Without such a checkpoint it ends with an error.
// - If the stream was finished rather than the job stopped, the loss of a server may undo everything up to
//   the final checkpoint.
// - As long as the servers hold the trained state, it is not given up because it cannot be saved.
// - Once members are being stopped, the job does not go on, and every reply announces the end.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/succession/succession.h"

namespace leat::protocol {

class JobEnd {
 public:
  explicit JobEnd(const Concerns& concerns) : to_(concerns), slices_(concerns.placement.map()) {}

  // ---- how far it is
  bool begun() const { return stage_ != Stage::kNone; }
  bool stopping() const { return stage_ >= Stage::kStoppingMembers; }
  bool ended() const { return stage_ == Stage::kEnded; }
  bool stop_requested() const { return stop_requested_; }
  // Every slice has every event of the stream, and so has the topic of predictions.
  bool Finished() const;
  // Why a command comes too late; ok if it does not.
  Status CheckNotBegun() const;
  LeasesAllowed Allowed() const;
  // "the final checkpoint, which failed: …"; empty: for nothing.
  std::string WaitingFor() const;

  // ---- events
  void OnStop(Time now, uint64_t call);
  // Ends the job without another checkpoint: it can be resumed from the newest one.
  void OnDiscard(Time now, uint64_t call);
  // From now on every reply announces the end of the job.
  void StopMembers(Time now, Status outcome);
  // Another coordinator goes on with the job. Nothing of this input happens: that one has not seen it.
  void OnReplaced(const Status& why);
  void Advance(Time now);

 private:
  enum class Stage : uint8_t { kNone, kDraining, kFinalCheckpoint, kStoppingMembers, kEnded };
  // Strategies that train each split separately: slices differ in so many runs since the job was stopped.
  struct Repairs {
    uint64_t runs = 0;
    Time deadline{0};       // for fewer runs
    Time idle_deadline{0};  // for a worker that trains some
  };
  Duration MemberWait() const;
  Duration CheckpointWait() const { return 3 * to_.checkpoints.settings().checkpoint_timeout; }
  bool Drained();
  bool SlicesAgree(Time now);
  bool FinalCheckpointDone() const;
  bool IsSaved() const;
  void EndLeases(Time now);
  void AdvanceFinalCheckpoint(Time now);
  void End(Status status);

  Concerns to_;
  SliceMap& slices_;
  Stage stage_ = Stage::kNone;
  bool stop_requested_ = false;
  Status outcome_;
  std::vector<uint64_t> calls_;
  Time deadline_{0};
  std::optional<HeartbeatCounts> drained_;  // stepped: when the last lease ended
  std::optional<Repairs> repairs_;
};

}  // namespace leat::protocol

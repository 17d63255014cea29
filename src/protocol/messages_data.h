// What workers and servers say to each other, as plain structs. wire/ makes bytes of them; the simulator
// passes them as they are.
//
// Receivers believe nothing: counts, ids and cuts are checked where they arrive.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "protocol/cut.h"
#include "protocol/slices.h"

namespace leat::protocol {

enum class Disposition : uint8_t {
  kPull = 0,      // no run: only asks for values
  kGradient = 1,  // a payload follows: the gradients of `slices`, f32, one after the other
  kEmpty = 2,     // the run held no good record: noted in the ledger, nothing to apply
  kRejected = 3,  // the gradient was not finite: noted in the ledger, nothing to apply
};

struct SliceRef {
  SliceId slice;
  Incarnation incarnation;
  uint64_t version = 0;  // that the gradient was computed from: staleness = version at apply − this
  friend bool operator==(const SliceRef&, const SliceRef&) = default;
};

// The place of a run among the steps of a stepped strategy.
struct StepLane {
  static constexpr uint32_t kMaxWidth = 1 << 16;
  uint64_t step = 0;
  uint32_t lane = 0;
  uint32_t width = 1;   // lanes of the step
  uint32_t needed = 1;  // of them count: the first to come, when that is fewer than `width`
  // Asked of every turn that a peer brings.
  bool valid() const { return width <= kMaxWidth && lane < width && needed >= 1 && needed <= width; }
  friend bool operator==(const StepLane&, const StepLane&) = default;
};

// What a push is, but for the lists that it brings.
struct PushHeader {
  uint64_t sequence = 0;  // of this worker, echoed by the reply
  NodeId worker;
  Generation generation;
  Disposition disposition = Disposition::kPull;
  Cut cut;  // of the run; unused by kPull
  uint32_t run = 0;
  uint32_t events = 0;  // good records in the run: its weight
  bool want_values = true;
  // Stepped strategies: the step that the run is part of; a kPull names it to bring the lanes that count.
  std::optional<StepLane> step_lane;
  // The reply waits until all of `slices` have this version at least (0: does not wait). `exact`: the values
  // of just this version are wanted; servers keep the one before the newest for that.
  uint64_t version_wanted = 0;
  bool exact = false;
  friend bool operator==(const PushHeader&, const PushHeader&) = default;
};

struct PushRequest : PushHeader {
  // Backup workers: the lanes that count in `step_lane->step`, as the server that decides has chosen them
  // (bit i % 64 of word i / 64); empty: not known to the sender.
  std::vector<uint64_t> counted;
  std::vector<SliceRef> slices;  // on this server, ordered by slice id, none twice
  friend bool operator==(const PushRequest&, const PushRequest&) = default;
};

enum class SliceOutcome : uint8_t {
  kApplied = 0,    // noted, and applied if there was anything to apply
  kDuplicate = 1,  // the ledger held it already
  kNotHere = 2,    // no such slice, or another incarnation of it, lives here: look for a new view
  kConflict = 3,   // the cut contradicts one that is open here
  kPulled = 4,     // kPull: nothing noted
  kHeld = 5,       // kept for its step, and noted when that is complete
  kLate = 6,       // its step was completed without it: its events are trained in another
};

struct SliceReply {
  SliceId slice;
  SliceOutcome outcome = SliceOutcome::kNotHere;
  bool values = false;  // the slice's f32 values are in the payload, in the order of `slices`
  Incarnation incarnation;
  uint64_t version = 0;  // updates applied to the slice by now
  friend bool operator==(const SliceReply&, const SliceReply&) = default;
};

struct PushReply {
  uint64_t sequence = 0;
  Generation generation;  // of the server's view
  bool evicted = false;   // the worker is no member of it any more; nothing was applied
  // From the server that decides (the one that holds slice 0), where fewer lanes are needed than there are:
  // those that count in the turn of the request; empty while that is open.
  std::vector<uint64_t> counted;
  std::vector<SliceReply> slices;
  friend bool operator==(const PushReply&, const PushReply&) = default;
};

}  // namespace leat::protocol

// Messages between workers and servers, as plain structs. wire/ encodes them; the simulator passes them
// directly.
//
// Receivers treat them as untrusted: counts, ids and cuts are checked on arrival.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/fields/fields.h"
#include "base/ids.h"
#include "base/status.h"
#include "protocol/cut.h"
#include "protocol/slice.h"
#include "protocol/slices.h"

namespace leat::protocol {

enum class Disposition : uint8_t {
  kPull = 0,      // no run: only requests values
  kGradient = 1,  // payload: the f32 gradients of `slices`, one after the other
  kEmpty = 2,     // the run had no good record: recorded in the ledger, nothing to apply
  kRejected = 3,  // the gradient was not finite: recorded in the ledger, nothing to apply
};
LEAT_ENUM(Disposition, (kPull, "pull"), (kGradient, "gradient"), (kEmpty, "empty"), (kRejected, "rejected"));

struct SliceRef {
  SliceId slice;
  Incarnation incarnation;
  uint64_t version = 0;  // version of the values behind the gradient; staleness = version at apply − this
};
LEAT_FIELDS(SliceRef, (slice, Fixed), (incarnation, Fixed), (version, Fixed));

// The position of a run among the steps of a stepped strategy.
struct StepLane {
  static constexpr uint32_t kMaxWidth = 1 << 16;
  uint64_t step = 0;
  uint32_t lane = 0;
  uint32_t width = 1;   // lanes of the step
  uint32_t needed = 1;  // lanes that count: the first to arrive, if fewer than `width`
  // Check every step lane from a peer.
  bool valid() const { return width <= kMaxWidth && lane < width && needed >= 1 && needed <= width; }
};
LEAT_FIELDS(StepLane, (step), (lane), (width, AtMost(StepLane::kMaxWidth)), (needed));
Status Check(const StepLane& step_lane);

// A factor on the learning rate of an update, as the coordinator sets it. Check every one from a peer or
// file.
inline constexpr float kMaxRate = 1000;
inline bool ValidRate(float rate) {
  return rate > 0 && rate <= kMaxRate;
}

// The rule of the cut of a push: a pull has none.
struct UnlessPull {
  Disposition disposition;
};
template <class Writer>
void PutField(const Cut& cut, Writer* out, const UnlessPull& rule) {
  if (rule.disposition != Disposition::kPull) out->Put(cut);
}
template <class Reader>
void GetField(Cut* cut, Reader* in, const UnlessPull& rule) {
  if (rule.disposition != Disposition::kPull) in->Get(cut);
}
constexpr std::string_view FormatOf(const Cut*, const UnlessPull&) {
  return "Cut, unless it is a pull";
}

// A push without its lists.
struct PushHeader {
  uint64_t sequence = 0;  // number of the push at this worker; the reply echoes it
  NodeId worker;
  Generation generation;
  Disposition disposition = Disposition::kPull;
  Cut cut;  // cut of the run; unused by kPull
  uint32_t run = 0;
  uint32_t events = 0;  // good records in the run: its weight
  float rate = 1;       // factor on the learning rate; equal for all lanes of a step
  bool want_values = true;
  // Stepped strategies: the step and lane of the run. A kPull names it to announce the lanes that count.
  std::optional<StepLane> step_lane;
  // The reply waits until all of `slices` have at least this version (0: does not wait). `exact`: requests
  // the values of exactly this version, for which servers keep the previous version.
  uint64_t version_wanted = 0;
  bool exact = false;
};
LEAT_FIELDS(PushHeader, (sequence), (worker), (generation), (disposition),
            (cut, UnlessPull{self.disposition}), (run), (events), (rate), (want_values), (step_lane),
            (version_wanted), (exact));

struct PushRequest : PushHeader {
  // Backup workers: the lanes that count in `step_lane->step`, as chosen by the server that decides (bit i %
  // 64 of word i / 64). Empty: the sender does not know them.
  std::vector<uint64_t> counted;
  std::vector<SliceRef> slices;  // on this server, ordered by slice id, without duplicates
  friend bool operator==(const PushRequest&, const PushRequest&) = default;
};
LEAT_MORE_FIELDS(PushRequest, PushHeader, (counted, AtMost(StepLane::kMaxWidth / 64), Each(Fixed)),
                 (slices, AtMost(1 << 20)));
Status Check(const PushRequest& push);

enum class SliceOutcome : uint8_t {
  kApplied = 0,    // recorded, and applied if there was anything to apply
  kDuplicate = 1,  // the ledger had it already
  kNotHere = 2,    // the slice or this incarnation is not on this server: push where a newer view places it
  kConflict = 3,   // the cut contradicts an open one
  kPulled = 4,     // kPull: nothing recorded
  kHeld = 5,       // kept for its step, and recorded when that is complete
  kLate = 6,       // its step completed without it: its events are trained in another
  // Not taken while the slice moved, or taken and not known to be on its replica: push it again to this
  // server
  kMoving = 7,
};
LEAT_ENUM(SliceOutcome, (kApplied, "applied"), (kDuplicate, "duplicate"), (kNotHere, "not_here"),
          (kConflict, "conflict"), (kPulled, "pulled"), (kHeld, "held"), (kLate, "late"),
          (kMoving, "moving"));

struct SliceReply {
  SliceId slice;
  SliceOutcome outcome = SliceOutcome::kNotHere;
  bool values = false;  // the slice's f32 values are in the payload, in the order of `slices`
  Incarnation incarnation;
  uint64_t version = 0;  // updates applied to the slice by now
};
LEAT_FIELDS(SliceReply, (slice, Fixed), (outcome), (values), (incarnation, Fixed), (version, Fixed));

struct PushReply {
  uint64_t sequence = 0;
  Generation generation;  // generation of the server's view
  bool evicted = false;   // the worker is no longer a member; nothing was applied
  // Backup workers, from the server that decides (the one with slice 0): the lanes that count in the
  // request's step. Empty until decided.
  std::vector<uint64_t> counted;
  std::vector<SliceReply> slices;
};
LEAT_FIELDS(PushReply, (sequence), (generation), (evicted),
            (counted, AtMost(StepLane::kMaxWidth / 64), Each(Fixed)), (slices, AtMost(1 << 20)));
Status Check(const PushReply& reply);

// A forward without its push.
struct ForwardHeader {
  NodeId from;                       // the primary
  uint64_t link = 0;                 // unique among those of the sender; a later one has a larger number
  uint64_t number = 0;               // on the link: 1, 2, …
  std::vector<uint64_t> epochs;      // by slice of the push: ReplicaGroup::epoch
  std::vector<uint64_t> versions;    // by slice of the push: the version that the slice reached by it
  std::vector<DecidedStep> decided;  // backup workers: the steps decided before the push
};
LEAT_FIELDS(ForwardHeader, (from), (link), (number), (epochs, AtMost(1 << 20)), (versions, AtMost(1 << 20)),
            (decided, AtMost(1 << 20)));

// A push that the primary has taken, for one server with replicas of its slices. That server takes forwards
// in the same order.
struct ForwardRequest : ForwardHeader {
  // The push with the slices that have taken it; kPull: slices that have completed steps because of
  // `decided`.
  PushRequest push;
  friend bool operator==(const ForwardRequest&, const ForwardRequest&) = default;
};
LEAT_MORE_FIELDS(ForwardRequest, ForwardHeader, (push));

struct ForwardReply {
  uint64_t link = 0;
  uint64_t number = 0;           // all up to this one are taken
  bool broken = false;           // something before the request is missing: the link is useless
  std::vector<SliceId> refused;  // slices that are not (or no longer) replicas of the sender
};
LEAT_FIELDS(ForwardReply, (link), (number), (broken), (refused, AtMost(1 << 20)));

}  // namespace leat::protocol

// What has to hold in every job, each by its name. A job in which one does not hold ends at once, with the
// violation as its result.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "base/clock.h"

namespace leat::sim {

enum class Invariant : uint8_t {
  // ---- looked at while the job runs, where ClusterOptions::check is set
  kAppliedOnce,   // async, downpour: no batch is applied twice on a slice
  kWatermark,     // the watermark never passes a batch that a live slice lacks
  kCheckpoint,    // a complete checkpoint has each slice once, with every batch before its watermark
  kMembersAgree,  // members of a group hold the same state at the same step, none more than a step ahead
  kOneGroup,      // no member takes a piece that was sent in another group than its own
  kProgress,      // something moves within ClusterOptions::progress_within
  // ---- always
  kDeadline,  // the job ends within ClusterOptions::time_limit
  kAccepted,  // no role refuses what another sends
  kRestored,  // journal and manifest agree whenever a coordinator starts
  kJobEnds,   // the job ends without a failure, and with all of the stream
  // ---- counts: what has become of the events, looked at when the job has ended (counting.h)
  kValues,   // workers compute on the values that their strategy promises, equal in all slices of one version
  kCover,    // cuts cover the stream without gap or overlap
  kCount,    // every slice counts every event exactly once
  kLedgers,  // no slice has an open split left
};
const char* Name(Invariant invariant);

struct Violation {
  Invariant invariant = Invariant::kDeadline;
  std::string what;
  Time at{0};  // on the virtual clock
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& out, const Violation& v) { return out << v.ToString(); }
};

}  // namespace leat::sim

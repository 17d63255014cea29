// The log of a job's events: what has changed between two readings of its status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "show/history/sample.h"

namespace leat::observe {

struct Event {
  enum class Kind : uint8_t {
    kJob,  // its phase, its wishes
    kJoined,
    kLeft,
    kDied,    // a process that ended, or a member that was evicted
    kMember,  // an action of a member
    kCheckpoint,
    kCheckpointFailed,
    kDrift,
    kWarning,
    kDeadLetter,  // `text`: its place and the reason
  } kind = Kind::kJob;
  uint64_t number = 0;  // position in the log, given by History
  double time_s = 0;    // since 1970
  std::string member;   // "worker 3"; empty: none
  uint64_t node = 0;
  std::string text;  // with bytes of records and peers, at most kMaxText
  static constexpr size_t kMaxText = 512;
};
LEAT_ENUM(Event::Kind, (kJob, "job"), (kJoined, "joined"), (kLeft, "left"), (kDied, "died"),
          (kMember, "member"), (kCheckpoint, "checkpoint"), (kCheckpointFailed, "checkpoint_failed"),
          (kDrift, "drift"), (kWarning, "warning"), (kDeadLetter, "dead_letter"));
// A larger number could leave none for the next event.
LEAT_FIELDS(Event, (kind), (number, AtMost(uint64_t{1} << 53)),
            (time_s, NotNegative, AtMost(kLatest_s), As("time")), (member, AtMost(512)), (node),
            (text, AtMost(Event::kMaxText)));

// The events between two readings, in a useful order. `before`: null for the first reading that there is. A
// pure function.
std::vector<Event> EventsBetween(const Reading* before, const Reading& now);

}  // namespace leat::observe

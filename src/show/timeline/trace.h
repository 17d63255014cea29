// A recording as a Chrome trace (Trace Event Format), which Perfetto opens. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/recorder/recorder.h"
#include "protocol/messages_control.h"

namespace leat::timeline {

struct ProcessSpans {
  protocol::TimelineProcess process;
  std::vector<TrackSpans> tracks;
};

struct Recorded {
  Time begin{0}, end{0};  // by the coordinator's clock
  std::vector<ProcessSpans> processes;
};

// Counts of the events in the file.
struct TraceCounts {
  uint64_t spans = 0;
  uint64_t arrows = 0;      // from a push to its apply
  uint64_t unmatched = 0;   // pushes whose apply is not in the recording
  Duration clock_error{0};  // the largest
};

// Hands the JSON to `write`, piece by piece. Times begin at the recording's, in microseconds of the
// coordinator's clock; what a process did before or after that is left out. `otherData` names each process
// with the error of its clock and, if its spans are not complete, why. A process is a process of the trace;
// its rows are its threads, and one for each peer that it pushes to, or applies pushes of. Spans that overlap
// get rows of their own.
TraceCounts WriteTrace(const Recorded& recorded, const std::function<void(std::string_view)>& write);

}  // namespace leat::timeline

// A recording as a Chrome trace (Trace Event Format), which Perfetto opens, with all times by one clock.
// Pure.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/recorder/recorder.h"
#include "protocol/messages_control.h"

namespace leat::timeline {

using protocol::ClockSample;

// How the clock of another host differs from one's own, measured by questions and answers. A question is sent
// at `sent` and its answer comes at `received`, of one's own clock. The answer has the time of the other
// clock at some moment in between. This limits the error of the difference to half the time in between,
// whichever way took longer (Mills 1991; Cristian 1989).
ClockSample Measure(Time sent, Time received, Time other);

// The samples that matter: the most exact one of the first questions, and of the last. In between the offset
// is then known from both sides.
inline constexpr size_t kQuestions = 16;  // in a row, at each end
std::vector<ClockSample> Best(std::span<const ClockSample> samples);

// Times of one's own clock as those of the other one. Between two samples the offset changes evenly: clocks
// of two computers drift apart by some microseconds a second.
class ClockOffset {
 public:
  // In the order of their times. None: both clocks are the same.
  explicit ClockOffset(std::vector<ClockSample> samples = {});
  Time ToOther(Time mine) const;
  Duration error() const;  // the largest; of times between the samples

 private:
  std::vector<ClockSample> samples_;
};

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

// How the clock of another host differs from one's own, measured by questions and answers. Pure.
//
// A question is sent at `sent` and its answer comes at `received`, of one's own clock. The answer has the
// time of the other clock at some moment in between. This limits the error of the difference to half the time
// in between, whichever way took longer (Mills 1991; Cristian 1989).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "protocol/messages_control.h"

namespace leat::timeline {

using protocol::ClockSample;

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

}  // namespace leat::timeline

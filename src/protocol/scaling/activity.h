// Whether a job needs any worker at all: not while its stream is silent and everything is trained. Pure
// state; time and load are arguments. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "protocol/scaling/autoscaler.h"

namespace leat::protocol {

class Activity {
 public:
  // A pause of the stream that is no silence.
  static constexpr Duration kPause = std::chrono::seconds(5);

  // To be called a few times a second. `open`: there is work that the lag does not show. While the job does
  // not train for another reason than that it has no workers, the answer stays as it is.
  bool OnLoad(Time now, const Load& load, bool open);
  bool active() const { return active_; }

 private:
  bool active_ = true;
  uint64_t arrived_ = 0;
  std::optional<Time> silent_since_;
};

}  // namespace leat::protocol

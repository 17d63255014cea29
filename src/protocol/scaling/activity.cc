#include "protocol/scaling/activity.h"

namespace leat::protocol {

bool Activity::OnLoad(Time now, const Load& load, bool open) {
  const bool work = load.lag > 0 || open || load.arrived != arrived_;
  arrived_ = load.arrived;
  // Work is work, whether it can be done now or not.
  if (work) {
    active_ = true;
    silent_since_.reset();
  } else if (!load.ready) {
    silent_since_.reset();
  } else {
    if (!silent_since_) silent_since_ = now;
    if (now - *silent_since_ >= kPause) active_ = false;
  }
  return active_;
}

}  // namespace leat::protocol

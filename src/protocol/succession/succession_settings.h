// The settings of a coordinator that follows another one. Plain data.
#pragma once

namespace leat::protocol {

struct SuccessionSettings {
  // The members in the journal may be alive and follow this coordinator, with all that they hold. False:
  // their processes are gone, or were started for another job.
  bool take_over = false;
};

}  // namespace leat::protocol

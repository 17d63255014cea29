// The group's check taken out: whatever group something was said in counts as the present one.
#include "protocol/guards.h"

namespace leat::protocol::guards {

bool SameGroup(uint64_t, uint64_t) {
  return true;
}

}  // namespace leat::protocol::guards

#include "protocol/guards.h"

namespace leat::protocol::guards {

bool SameGroup(uint64_t said, uint64_t now) {
  return said == now;
}

}  // namespace leat::protocol::guards

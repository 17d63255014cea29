#include "protocol/guards.h"

namespace leat::protocol::guards {

bool CurrentTerm(uint64_t said, uint64_t known) {
  return said >= known;
}

}  // namespace leat::protocol::guards

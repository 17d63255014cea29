#include "protocol/guards.h"
#include "protocol/messages_control.h"

namespace leat::protocol::guards {

bool CurrentTerm(uint64_t said, uint64_t known) {
  return said >= known || !SameRun(said, known);
}

}  // namespace leat::protocol::guards

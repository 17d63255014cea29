// Mutant without the majority check: any member elects a coordinator, or learns for all which ones are left.
#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Majority(size_t, size_t) {
  return true;
}

}  // namespace leat::protocol::guards

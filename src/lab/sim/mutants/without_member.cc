// Mutant without the member check: requests of workers that are not in the view count like all others.
#include "protocol/guards.h"

namespace leat::protocol::guards {

bool IsMember(bool) {
  return true;
}

}  // namespace leat::protocol::guards

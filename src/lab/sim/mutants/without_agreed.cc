// Mutant without the agreement check: a coordinator acts on records that its standbys lack.
#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Agreed(bool) {
  return true;
}

}  // namespace leat::protocol::guards

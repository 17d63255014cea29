// Mutant without the ledger check: every run is applied.
#include "protocol/guards.h"

namespace leat::protocol::guards {

bool AlreadyApplied(bool) {
  return false;
}

}  // namespace leat::protocol::guards

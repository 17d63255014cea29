#include "protocol/guards.h"

namespace leat::protocol::guards {

bool AlreadyApplied(bool in_ledger) {
  return in_ledger;
}

}  // namespace leat::protocol::guards

#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Held(bool in_ledger) {
  return in_ledger;
}

}  // namespace leat::protocol::guards

#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Held(bool in_ledger) {
  return in_ledger;
}

bool SameLife(Incarnation said, Incarnation now) {
  return said == now;
}

}  // namespace leat::protocol::guards

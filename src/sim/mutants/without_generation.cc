// The generation's check taken out: whoever sends something is taken for a member.
#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Held(bool in_ledger) {
  return in_ledger;
}

bool SameLife(Incarnation said, Incarnation now) {
  return said == now;
}

bool Member(bool) {
  return true;
}

}  // namespace leat::protocol::guards

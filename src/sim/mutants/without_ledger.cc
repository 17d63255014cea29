// The ledger's check taken out: whatever arrives is applied.
#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Held(bool) {
  return false;
}

bool SameLife(Incarnation said, Incarnation now) {
  return said == now;
}

bool Member(bool in_view) {
  return in_view;
}

bool SameGroup(uint64_t said, uint64_t now) {
  return said == now;
}

}  // namespace leat::protocol::guards

// The incarnation's check taken out: any life of a slice counts as its present one.
#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Held(bool in_ledger) {
  return in_ledger;
}

bool SameLife(Incarnation, Incarnation) {
  return true;
}

bool Member(bool in_view) {
  return in_view;
}

bool SameGroup(uint64_t said, uint64_t now) {
  return said == now;
}

}  // namespace leat::protocol::guards

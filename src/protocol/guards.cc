#include "protocol/guards.h"

namespace leat::protocol::guards {

bool Held(bool in_ledger) {
  return in_ledger;
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

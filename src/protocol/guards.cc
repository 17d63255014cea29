#include "protocol/guards.h"

#include "protocol/messages_control.h"

// Weak: another definition takes the place of this one. The compiler inlines none, since it may be replaced.
#define LEAT_GUARD [[gnu::weak]] bool

namespace leat::protocol::guards {

LEAT_GUARD AlreadyApplied(bool in_ledger) {
  return in_ledger;
}
LEAT_GUARD SameIncarnation(Incarnation said, Incarnation now) {
  return said == now;
}
LEAT_GUARD IsMember(bool in_view) {
  return in_view;
}
LEAT_GUARD SameGroup(uint64_t said, uint64_t now) {
  return said == now;
}
LEAT_GUARD CurrentTerm(uint64_t said, uint64_t known) {
  return said >= known || !SameRun(said, known);
}
LEAT_GUARD Unsealed(bool sealed_before) {
  return !sealed_before;
}
LEAT_GUARD Agreed(bool all_have_it) {
  return all_have_it;
}
LEAT_GUARD Majority(size_t votes, size_t electors) {
  return 2 * votes > electors;
}
LEAT_GUARD OnReplica(bool acknowledged) {
  return acknowledged;
}

}  // namespace leat::protocol::guards

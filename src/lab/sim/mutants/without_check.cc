// The mutants: each is this source, compiled with the name of the check that it takes out.
#include "protocol/guards.h"

namespace leat::protocol::guards {

#if defined(LEAT_WITHOUT_LEDGER)
// Without the ledger check: every run is applied.
bool AlreadyApplied(bool) {
  return false;
}
#elif defined(LEAT_WITHOUT_INCARNATION)
// Without the incarnation check: any incarnation of a slice counts as the current one.
bool SameIncarnation(Incarnation, Incarnation) {
  return true;
}
#elif defined(LEAT_WITHOUT_GROUP)
// Without the group check: messages of any group are accepted.
bool SameGroup(uint64_t, uint64_t) {
  return true;
}
#elif defined(LEAT_WITHOUT_MEMBER)
// Without the member check: requests of workers that are not in the view count like all others.
bool IsMember(bool) {
  return true;
}
#elif defined(LEAT_WITHOUT_SEAL)
// Without the seal check: a coordinator takes whatever it has journaled for part of the journal.
bool Unsealed(bool) {
  return true;
}
#elif defined(LEAT_WITHOUT_TERM)
// Without the term check: members follow whichever coordinator answers, and a coordinator that was replaced
// does not notice it by what they send.
bool CurrentTerm(uint64_t, uint64_t) {
  return true;
}
#elif defined(LEAT_WITHOUT_REPLICA)
// Without the acknowledgement check: a push is answered whether its replicas have it or not.
bool OnReplica(bool) {
  return true;
}
#elif defined(LEAT_WITHOUT_AGREED)
// Without the agreement check: a coordinator acts on records that its standbys lack.
bool Agreed(bool) {
  return true;
}
#elif defined(LEAT_WITHOUT_MAJORITY)
// Without the majority check: any member elects a coordinator, or learns for all which ones are left.
bool Majority(size_t, size_t) {
  return true;
}
#else
#error "no check is named"
#endif

}  // namespace leat::protocol::guards

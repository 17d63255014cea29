// The checks that exactly-once delivery depends on, each in one function.
//
// Their symbols are weak, so that lab/sim/mutants can link a program without one of them and show that it
// then counts wrong. They cannot be disabled at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"

namespace leat::protocol::guards {

// Ledger check: a run that a slice already has is not applied again.
bool AlreadyApplied(bool in_ledger);
// Incarnation check: messages about or to a former incarnation of a slice are ignored.
bool SameIncarnation(Incarnation said, Incarnation now);
// Generation check: requests of a worker that is not in the current view are ignored. Rounds of lanes: auto
// are made anew although a worker that is gone may still have leases of the old ones.
bool IsMember(bool in_view);
// Group check of all-reduce: messages of another group than the current one are ignored.
bool SameGroup(uint64_t said, uint64_t now);
// Term check: a member ignores replies of a coordinator that was replaced by the one that it follows, and a
// coordinator that hears of a higher term than its own ends.
bool CurrentTerm(uint64_t said, uint64_t known);
// Seal check: a record that a coordinator has journaled counts only if no later coordinator has sealed the
// journal before it.
bool Unsealed(bool sealed_before);
// Agreement check: coordinators with directories of their own act on a record only when all of them have it.
bool Agreed(bool all_have_it);
// Majority check: members elect a coordinator, or learn which ones may be elected, by more than half of them.
bool Majority(size_t votes, size_t electors);

// Acknowledgement check: a push is answered only once the replica of each of its slices has it.
bool OnReplica(bool acknowledged);

}  // namespace leat::protocol::guards

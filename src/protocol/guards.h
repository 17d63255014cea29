// The checks that exactly once rests on, each in one place.
//
// Each is a source file of its own (guard_*.cc) so that tests can link a program in which one of them is
// taken out (sim/mutants) and show that it then counts wrong. No running program can switch them.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace leat::protocol::guards {

// The ledger's check: a batch that a slice holds is not applied again.
bool AlreadyApplied(bool in_ledger);
// The incarnation's check: what is said of, or to, a former life of a slice does not count for this one.
bool SameIncarnation(Incarnation said, Incarnation now);
// The generation's check: a worker that the view of its time does not name is not listened to.
// Untested: without it no job that the simulator knows counts wrong. It stays, and is listed as untested in
// sim/mutants/mutant_test.cc, until elastic membership supplies a job in which it is needed.
bool IsMember(bool in_view);
// The group's check, where workers reduce among themselves: what was said in another group than the one that
// is now does not count.
bool SameGroup(uint64_t said, uint64_t now);

}  // namespace leat::protocol::guards

#include "lab/sim/push/push_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lab/sim/invariants.h"

namespace leat::sim {

using namespace protocol;

void PushCheck::OnLoaded(SliceId slice, Incarnation incarnation, std::vector<PartitionLedger> ledger) {
  applied_[{slice, incarnation}].loaded = std::move(ledger);
}

void PushCheck::CheckApplied(const PushRequest& request, const std::vector<SliceReply>& replies) {
  if (world_.options.strategy.stepped()) return;
  for (const SliceReply& reply : replies) {
    if (reply.outcome != SliceOutcome::kApplied) continue;
    Applied& of_slice = applied_[{reply.slice, reply.incarnation}];
    const Cut& cut = request.cut;
    const bool before = !of_slice.loaded.empty() && HeldRuns(of_slice.loaded, cut).Has(request.run);
    const bool fresh = of_slice.runs.insert({cut.partition, cut.begin, request.run}).second;
    if (before || !fresh) {
      world_.Violate(Invariant::kPushAppliedOnce,
                     NameOf(reply.slice) + ", partition " + std::to_string(cut.partition) + " " +
                         NameOf(cut.begin) + " run " + std::to_string(request.run));
      world_.violation->twice = std::max(world_.violation->twice, cut.EventsOf(request.run));
      return;
    }
  }
}

}  // namespace leat::sim

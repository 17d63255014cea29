#include "lab/sim/slices/slice_check.h"

#include <algorithm>
#include <string>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

void SliceCheck::OnLoaded(SliceId slice, Incarnation incarnation, std::vector<PartitionLedger> ledger) {
  applied_[{slice, incarnation}].loaded = std::move(ledger);
}

void SliceCheck::CheckApplied(const PushRequest& request, const std::vector<SliceReply>& replies) {
  if (options_.strategy.stepped()) return;
  for (const SliceReply& reply : replies) {
    if (reply.outcome != SliceOutcome::kApplied) continue;
    Applied& of_slice = applied_[{reply.slice, reply.incarnation}];
    const Cut& cut = request.cut;
    const bool before = !of_slice.loaded.empty() && HeldRuns(of_slice.loaded, cut).Has(request.run);
    const bool fresh = of_slice.runs.insert({cut.partition, cut.begin, request.run}).second;
    if (before || !fresh) {
      Violate(Invariant::kPushAppliedOnce, NameOf(reply.slice) + ", partition " +
                                               std::to_string(cut.partition) + " " + NameOf(cut.begin) +
                                               " run " + std::to_string(request.run));
      result_.violation->twice = std::max(result_.violation->twice, cut.EventsOf(request.run));
      return;
    }
  }
}

std::vector<SliceRef> SliceCheck::VersionsOf(const RoleProcess& server) const {
  std::vector<SliceRef> all;
  for (uint32_t i = 0; i < world_.slice_ranges.size(); ++i) {
    if (const auto at = server.server->VersionOf(SliceId(i))) all.push_back(*at);
  }
  return all;
}

void SliceCheck::CheckWriter(const RoleProcess& p, const std::vector<SliceRef>& before) {
  // A push neither adds slices nor removes them.
  const std::vector<SliceRef> after = VersionsOf(p);
  for (size_t i = 0; i < before.size(); ++i) {
    if (after[i].version == before[i].version) continue;
    const auto [reached, fresh] =
        versions_.try_emplace({after[i].slice, after[i].incarnation}, after[i].version);
    if (!fresh && reached->second != before[i].version) {
      return Violate(Invariant::kSlicesOneWriter, NameOf(after[i].slice) + " is updated from version " +
                                                      std::to_string(before[i].version) + " on node " +
                                                      leat::ToString(p.node) + ", and is at version " +
                                                      std::to_string(reached->second));
    }
    reached->second = after[i].version;
  }
}

SliceCheck::Before SliceCheck::SlicesOf(const RoleProcess& p) const {
  Before before{VersionsOf(p), std::vector<bool>(world_.slice_ranges.size())};
  for (uint32_t i = 0; i < before.replicas.size(); ++i) before.replicas[i] = p.server->HasReplica(SliceId(i));
  return before;
}

void SliceCheck::CheckTold(const RoleProcess& p, const PushRequest& request, const PushReply& reply) {
  if (reply.evicted || request.disposition == Disposition::kPull) return;
  CheckApplied(request, reply.slices);
  for (const SliceReply& slice : reply.slices) {
    if (slice.outcome != SliceOutcome::kApplied && slice.outcome != SliceOutcome::kDuplicate) continue;
    told_[{slice.slice, slice.incarnation}].push_back({request.cut, request.run});
    // It may have been replaced without knowing it.
    for (const ProcessPtr& other : processes_.processes()) {
      if (!other || !other->server || other.get() == &p) continue;
      const auto at = other->server->VersionOf(slice.slice);
      if (!at || at->incarnation != slice.incarnation) continue;
      if (other->server->HasArrived({slice.slice, slice.incarnation})) continue;
      const View view = all_.coordinators.status().view;
      if (slice.slice.value >= view.slices.size() || view.slices[slice.slice.value].server != other->node)
        continue;
      const Slice* const held = other->server->Find(slice.slice);
      if (HeldRuns(held->ledger.partitions(), request.cut).Has(request.run)) continue;
      return Violate(Invariant::kSlicesTold, NameOf(slice.slice) + ": node " + leat::ToString(p.node) +
                                                 " says that it has a run from " + NameOf(request.cut.begin) +
                                                 ", which node " + leat::ToString(other->node) + " lacks");
    }
  }
}

void SliceCheck::CheckTakenOver(const RoleProcess& p, const Before& before) {
  for (const SliceRef& held : VersionsOf(p)) {
    const bool had = std::ranges::any_of(before.versions, [&](const SliceRef& ref) {
      return ref.slice == held.slice && ref.incarnation == held.incarnation;
    });
    if (had) continue;
    if (before.replicas[held.slice.value]) ++result_.promotions;
    const auto runs = told_.find({held.slice, held.incarnation});
    if (runs == told_.end()) continue;
    const Slice* const slice = p.server->Find(held.slice);
    for (const auto& [cut, run] : runs->second) {
      if (HeldRuns(slice->ledger.partitions(), cut).Has(run)) continue;
      return Violate(Invariant::kSlicesTold, NameOf(held.slice) + " on node " + leat::ToString(p.node) +
                                                 " lacks run " + std::to_string(run) + " of partition " +
                                                 std::to_string(cut.partition) + " from " +
                                                 NameOf(cut.begin));
    }
  }
}

}  // namespace leat::sim

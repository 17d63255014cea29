#include "lab/sim/invariants.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lab/sim/cluster/cluster_state.h"

namespace leat::sim {

std::string Violation::ToString() const {
  return "violated after " + std::to_string(Seconds(at)) + " s: " + std::string(fields::NameOf(invariant)) +
         ": " + what;
}

void Cluster::State::Violate(Invariant invariant, std::string what) {
  done = true;
  if (result.violation) return;
  result.violation = Violation{invariant, std::move(what), now()};
  result.error = result.violation->ToString();
}

namespace {

std::string NameOf(SliceId slice) {
  return "slice " + leat::ToString(slice);
}

std::string NameOf(const Position& at) {
  return "epoch " + std::to_string(at.epoch) + " offset " + std::to_string(at.offset);
}

// Empty, or the partition whose ledger lacks a run before the watermark.
std::string Lacks(const std::vector<PartitionLedger>& ledger, const std::vector<Position>& watermark) {
  for (size_t p = 0; p < watermark.size(); ++p) {
    if (p < ledger.size() && ledger[p].done >= watermark[p]) continue;
    return "partition " + std::to_string(p) + " is held up to " +
           (p < ledger.size() ? NameOf(ledger[p].done) : "nowhere") + ", the watermark is at " +
           NameOf(watermark[p]);
  }
  return "";
}

}  // namespace

void Cluster::State::CheckApplied(const PushRequest& request, const std::vector<SliceReply>& replies) {
  if (options.strategy.stepped()) return;
  for (const SliceReply& reply : replies) {
    if (reply.outcome != SliceOutcome::kApplied) continue;
    Applied& applied = applied_on[{reply.slice, reply.incarnation}];
    const Cut& cut = request.cut;
    const bool before = !applied.loaded.empty() && HeldRuns(applied.loaded, cut).Has(request.run);
    const bool fresh = applied.runs.insert({cut.partition, cut.begin, request.run}).second;
    if (before || !fresh) {
      Violate(Invariant::kAppliedOnce, NameOf(reply.slice) + ", partition " + std::to_string(cut.partition) +
                                           " " + NameOf(cut.begin) + " run " + std::to_string(request.run));
      result.violation->twice = std::max(result.violation->twice, cut.EventsOf(request.run));
      return;
    }
  }
}

std::vector<SliceRef> Cluster::State::VersionsOf(const RoleProcess& p) const {
  std::vector<SliceRef> all;
  for (uint32_t i = 0; i < slice_ranges.size(); ++i) {
    if (const auto at = p.server->VersionOf(SliceId(i))) all.push_back(*at);
  }
  return all;
}

void Cluster::State::CheckWriter(const RoleProcess& p, const std::vector<SliceRef>& before) {
  // A push neither adds slices nor removes them.
  const std::vector<SliceRef> after = VersionsOf(p);
  for (size_t i = 0; i < before.size(); ++i) {
    if (after[i].version == before[i].version) continue;
    const auto [reached, fresh] =
        versions.try_emplace({after[i].slice, after[i].incarnation}, after[i].version);
    if (!fresh && reached->second != before[i].version) {
      return Violate(Invariant::kOneWriter, NameOf(after[i].slice) + " is updated from version " +
                                                std::to_string(before[i].version) + " on node " +
                                                leat::ToString(p.node) + ", and is at version " +
                                                std::to_string(reached->second));
    }
    reached->second = after[i].version;
  }
}

void Cluster::State::CheckTold(const RoleProcess& p, const PushRequest& request, const PushReply& reply) {
  if (reply.evicted || request.disposition == Disposition::kPull) return;
  CheckApplied(request, reply.slices);
  for (const SliceReply& slice : reply.slices) {
    if (slice.outcome != SliceOutcome::kApplied && slice.outcome != SliceOutcome::kDuplicate) continue;
    told[{slice.slice, slice.incarnation}].push_back({request.cut, request.run});
    // It may have been replaced without knowing it.
    for (const ProcessPtr& other : roles) {
      if (!other || !other->server || other.get() == &p) continue;
      const auto at = other->server->VersionOf(slice.slice);
      if (!at || at->incarnation != slice.incarnation) continue;
      if (other->server->HasArrived({slice.slice, slice.incarnation})) continue;
      const View view = coordinator->machine->status().view;
      if (slice.slice.value >= view.slices.size() || view.slices[slice.slice.value].server != other->node)
        continue;
      const Slice* const its = other->server->Find(slice.slice);
      if (HeldRuns(its->ledger.partitions(), request.cut).Has(request.run)) continue;
      return Violate(Invariant::kTold, NameOf(slice.slice) + ": node " + leat::ToString(p.node) +
                                           " says that it has a run from " + NameOf(request.cut.begin) +
                                           ", which node " + leat::ToString(other->node) + " lacks");
    }
  }
}

std::vector<bool> Cluster::State::ReplicasOf(const RoleProcess& p) const {
  std::vector<bool> replicas(slice_ranges.size());
  for (uint32_t i = 0; i < replicas.size(); ++i) replicas[i] = p.server->HasReplica(SliceId(i));
  return replicas;
}

void Cluster::State::CheckTakenOver(const RoleProcess& p, const std::vector<SliceRef>& before,
                                    const std::vector<bool>& replicas) {
  for (const SliceRef& now_here : VersionsOf(p)) {
    const bool had = std::ranges::any_of(before, [&](const SliceRef& ref) {
      return ref.slice == now_here.slice && ref.incarnation == now_here.incarnation;
    });
    if (had) continue;
    if (replicas[now_here.slice.value]) ++result.promotions;
    const auto runs = told.find({now_here.slice, now_here.incarnation});
    if (runs == told.end()) continue;
    const Slice* const slice = p.server->Find(now_here.slice);
    for (const auto& [cut, run] : runs->second) {
      if (HeldRuns(slice->ledger.partitions(), cut).Has(run)) continue;
      return Violate(Invariant::kTold, NameOf(now_here.slice) + " on node " + leat::ToString(p.node) +
                                           " lacks run " + std::to_string(run) + " of partition " +
                                           std::to_string(cut.partition) + " from " + NameOf(cut.begin));
    }
  }
}

void Cluster::State::CheckWatermark() {
  if (!options.strategy.on_servers()) return;
  const CoordinatorStatus status = coordinator->machine->status();
  for (const ProcessPtr& p : roles) {
    if (!p || !p->server || !p->joined) continue;
    for (uint32_t i = 0; i < status.view.slices.size(); ++i) {
      const SliceLocation& location = status.view.slices[i];
      const Slice* slice =
          location.live && location.server == p->node ? p->server->Find(SliceId(i)) : nullptr;
      if (slice == nullptr || p->server->HasArrived({slice->id, slice->incarnation})) continue;
      if (auto lacks = Lacks(slice->ledger.partitions(), status.watermark); !lacks.empty())
        return Violate(Invariant::kWatermark, NameOf(slice->id) + ": " + lacks);
    }
  }
}

void Cluster::State::CheckLabels(const ControlReply& reply) {
  const auto* worker = std::get_if<WorkerHeartbeatReply>(&reply);
  if (worker == nullptr) return;
  const auto check = [this](const Cut& cut, const std::optional<LabelRange>& its) {
    if (auto wrong = label_check.OnLeased(cut, its); !wrong.empty())
      Violate(Invariant::kLabels, std::move(wrong));
  };
  for (const Lease& lease : worker->leases) check(lease.cut, lease.labels);
  for (const protocol::Round& round : worker->rounds) {
    for (const protocol::Round::Lane& part : round.lanes) check(part.cut, part.labels);
  }
}

void Cluster::State::NoteLeases(const CoordinatorProcess& c, const ControlReply& reply) {
  const auto* worker = std::get_if<WorkerHeartbeatReply>(&reply);
  if (worker == nullptr) return;
  for (const Lease& lease : worker->leases) leased_by[lease.id] = c.term;
  CheckPause(c, *worker);
}

// Checks a lease that a worker takes, or a round that a member takes. Servers refuse the work of a worker
// that is evicted already.
void Cluster::State::CheckLease(const RoleProcess& p, const Lease& lease) {
  const Cut& cut = lease.cut;
  const std::string name =
      "the cut of partition " + std::to_string(cut.partition) + " from " + NameOf(cut.begin);
  if (!disk.IsJournaled(cut)) return Violate(Invariant::kOneCoordinator, name + " is not journaled");
  const auto by = leased_by.find(lease.id);
  if (by == leased_by.end()) return;  // a member's own number
  uint64_t& highest = taken_from[{cut.partition, cut.begin}];
  if (by->second < highest && coordinator->machine->status().view.Find(p.node) != nullptr) {
    Violate(Invariant::kOneCoordinator, name + " is taken from the coordinator of term " +
                                            std::to_string(by->second) + ", after it was leased in term " +
                                            std::to_string(highest));
  }
  highest = std::max(highest, by->second);
}

void Cluster::State::CheckTerm(uint64_t before, uint64_t now_follows) {
  if (now_follows >= before) return;
  Violate(Invariant::kOneCoordinator, "a member of the coordinator of term " + std::to_string(before) +
                                          " follows the one of term " + std::to_string(now_follows));
}

void Cluster::State::CheckCheckpoint(const Manifest& manifest) {
  std::vector<uint32_t> copies(options.table.slices.size(), 0);
  const auto wrong = [&](const std::string& what) {
    Violate(Invariant::kCheckpoint, manifest.directory + ": " + what);
  };
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      const auto slice = disk.Read(manifest.directory, shard.file, incarnation.slice);
      if (!slice.ok()) return wrong(slice.status().ToString());
      if (incarnation.slice.value < copies.size()) ++copies[incarnation.slice.value];
      if (auto lacks = Lacks(slice->ledger.partitions(), manifest.watermark); !lacks.empty())
        return wrong(NameOf(incarnation.slice) + ": " + lacks);
    }
  }
  for (uint32_t i = 0; i < copies.size(); ++i) {
    if (copies[i] != 1)
      return wrong(NameOf(SliceId(i)) + " is there " + std::to_string(copies[i]) + " times");
  }
}

void Cluster::State::CheckGroup(const RoleProcess& p, const Piece& piece) {
  const uint64_t group = p.group_member->in.group;
  if (piece.group == group) return;
  Violate(Invariant::kOneGroup, "a member of group " + std::to_string(group) +
                                    " has taken a piece of bucket " + std::to_string(piece.bucket) +
                                    " of group " + std::to_string(piece.group));
}

// Checks a member that has completed a step, applied or not.
void Cluster::State::CheckMembers(const RoleProcess& p) {
  const Membership& in = p.group_member->in;
  const auto board = blackboards.find(in.group);
  if (board == blackboards.end()) return;
  const TrainingState& state = p.group_member->machine->state();
  const uint64_t step = state.header().step;
  auto& reached = board->second.reached;
  reached.resize(in.members.size(), 0);
  reached[in.rank] = step;
  for (uint32_t rank = 0; rank < reached.size(); ++rank) {
    if (reached[rank] == 0 || std::max(reached[rank], step) - std::min(reached[rank], step) <= 1) continue;
    return Violate(Invariant::kMembersAgree, "rank " + std::to_string(in.rank) + " holds step " +
                                                 std::to_string(step) + ", rank " + std::to_string(rank) +
                                                 " step " + std::to_string(reached[rank]));
  }
  Blackboard::Held held{state.header(), {}};
  for (const auto& part : state.Memory()) held.memory.insert(held.memory.end(), part.begin(), part.end());
  auto& all = board->second.held;
  all.erase(all.begin(), all.lower_bound(step - std::min<uint64_t>(step, 1)));
  const auto [first, fresh] = all.try_emplace(step, std::move(held));
  if (fresh) return;
  const Blackboard::Held& other = first->second;
  if (!(other.header == held.header) || other.memory.size() != held.memory.size() ||
      std::memcmp(other.memory.data(), held.memory.data(), held.memory.size() * sizeof(float)) != 0) {
    Violate(Invariant::kMembersAgree, "rank " + std::to_string(in.rank) + " of group " +
                                          std::to_string(in.group) +
                                          " holds another state than others at step " + std::to_string(step));
  }
}

void Cluster::State::CheckProgress() {
  const CoordinatorStatus status = coordinator->machine->status();
  Reached now_at{status.events, status.step, status.checkpoint.value_or(0), result.resumes, status.watermark};
  if (last_reached && *last_reached == now_at) {
    return Violate(
        Invariant::kProgress,
        "nothing has moved in " + std::to_string(Seconds(options.progress_within)) + " s: " + Standing());
  }
  last_reached = std::move(now_at);
  queue.After(options.progress_within, [this] { CheckProgress(); });
}

std::string Cluster::State::Standing() const {
  const CoordinatorStatus status = coordinator->machine->status();
  return "phase " + std::to_string(static_cast<int>(status.phase)) + ", lag " + std::to_string(status.lag) +
         ", leases " + std::to_string(status.leases);
}

}  // namespace leat::sim

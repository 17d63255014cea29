#include "lab/sim/leases/lease_check.h"

#include <algorithm>
#include <variant>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

// Limits of a mark.
constexpr uint64_t kMostEvents = 60, kMostLabels = 50;
constexpr double kRepeated = 0.25;

std::string RangeText(const LabelRange& labels) {
  return "labels " + std::to_string(labels.begin) + " to " + std::to_string(labels.end);
}

}  // namespace

void LabelStream::Start(const std::vector<LabelMarksWanted>& wanted) {
  partitions_.clear();
  for (const LabelMarksWanted& one : wanted) partitions_.emplace_back().last = one.last.value_or(LabelMark());
}

void LabelStream::Mark(Time now, const LabelMarksWanted& wanted, StreamRange* range) {
  Partition& partition = partitions_[range->partition];
  while (std::max(partition.last.events, range->begin) < range->end) {
    LabelMark next = partition.last;
    next.events = std::min(range->end, std::max(next.events, range->begin) + 1 + rng_.Below(kMostEvents));
    next.labels_begin += rng_.Below(next.labels_end - next.labels_begin + 1);
    next.labels_end += rng_.Below(kMostLabels);
    partition.ready = std::max(partition.ready, now + FromSeconds(Seconds(latest_) * rng_.Uniform()));
    partition.coming.emplace_back(partition.ready, next);
    partition.last = next;
  }
  std::vector<LabelMark> fresh;
  auto& coming = partition.coming;
  for (; !coming.empty() && coming.front().first <= now && fresh.size() < wanted.room; coming.pop_front())
    fresh.push_back(coming.front().second);
  if (rng_.Chance(kRepeated)) range->marks = partition.reported;
  range->marks.insert(range->marks.end(), fresh.begin(), fresh.end());
  if (!fresh.empty()) partition.reported = std::move(fresh);
}

void LabelCheck::OnJournaled(const LabelsMarked& marked) {
  auto& marks = marks_[marked.partition];
  marks.insert(marks.end(), marked.marks.begin(), marked.marks.end());
}

std::string LabelCheck::OnLeased(const Cut& cut, const std::optional<LabelRange>& labels) {
  const std::string name = "the cut of partition " + std::to_string(cut.partition) + " from " +
                           std::to_string(cut.begin.offset) + " to " + std::to_string(cut.end);
  if (!labels) return name + " is leased without labels";
  const auto& [first, first_labels] =
      leased_.try_emplace({cut.partition, cut.begin.offset}, cut, *labels).first->second;
  if (first != cut) return name + " is leased, after one that ended at " + std::to_string(first.end);
  if (first_labels != *labels)
    return name + " is leased with " + RangeText(*labels) + ", before with " + RangeText(first_labels);

  std::optional<LabelRange> journaled;
  uint64_t at = 0;
  for (const LabelMark& mark : marks_[cut.partition]) {
    if (at < cut.end && mark.events > cut.begin.offset) {
      if (!journaled) journaled = LabelRange{mark.labels_begin, mark.labels_end};
      journaled->end = mark.labels_end;
    }
    at = mark.events;
  }
  if (at < cut.end) return name + " is leased, marks are journaled up to " + std::to_string(at);
  if (journaled != labels)
    return name + " is leased with " + RangeText(*labels) + ", journaled are " + RangeText(*journaled);
  return "";
}

void LeaseCheck::CheckWatermark() {
  if (!options_.strategy.on_servers()) return;
  const CoordinatorStatus status = all_.coordinators.status();
  for (const ProcessPtr& p : processes_.processes()) {
    if (!p || !p->server || !p->joined) continue;
    for (uint32_t i = 0; i < status.view.slices.size(); ++i) {
      const SliceLocation& location = status.view.slices[i];
      const Slice* slice =
          location.live && location.server == p->node ? p->server->Find(SliceId(i)) : nullptr;
      if (slice == nullptr || p->server->HasArrived({slice->id, slice->incarnation})) continue;
      if (auto lacks = Lacks(slice->ledger.partitions(), status.watermark); !lacks.empty())
        return Violate(Invariant::kLeasesWatermark, NameOf(slice->id) + ": " + lacks);
    }
  }
}

void LeaseCheck::CheckReply(uint64_t term, const ControlReply& reply) {
  const auto* worker = std::get_if<WorkerHeartbeatReply>(&reply);
  if (worker == nullptr) return;
  if (world_.LateLabels()) CheckLabels(*worker);
  for (const Lease& lease : worker->leases) leased_by_[lease.id] = term;
  CheckPause(term, *worker);
}

void LeaseCheck::CheckLabels(const WorkerHeartbeatReply& reply) {
  const auto check = [this](const Cut& cut, const std::optional<LabelRange>& labels) {
    if (auto wrong = labels_.OnLeased(cut, labels); !wrong.empty())
      Violate(Invariant::kLeasesLabels, std::move(wrong));
  };
  for (const Lease& lease : reply.leases) check(lease.cut, lease.labels);
  for (const protocol::Round& round : reply.rounds) {
    for (const protocol::Round::Lane& lane : round.lanes) check(lane.cut, lane.labels);
  }
}

void LeaseCheck::CheckTaken(const RoleProcess& p, const Lease& lease) {
  const Cut& cut = lease.cut;
  const std::string name =
      "the cut of partition " + std::to_string(cut.partition) + " from " + NameOf(cut.begin);
  if (!all_.disk.IsJournaled(cut))
    return Violate(Invariant::kSuccessionOneCoordinator, name + " is not journaled");
  const auto by = leased_by_.find(lease.id);
  if (by == leased_by_.end()) return;  // a member's own number
  uint64_t& highest = taken_from_[{cut.partition, cut.begin}];
  if (by->second < highest && all_.coordinators.status().view.Find(p.node) != nullptr) {
    Violate(Invariant::kSuccessionOneCoordinator,
            name + " is taken from the coordinator of term " + std::to_string(by->second) +
                ", after it was leased in term " + std::to_string(highest));
  }
  highest = std::max(highest, by->second);
}

void LeaseCheck::OnScale(const ScaleSet& set) {
  if (!set.paused) {
    paused_from_.reset();
  } else if (!paused_from_) {
    paused_from_ = leased_until_;
  }
}

// Only the former coordinator knew which rounds it had leased. Before a pause, any of them may be leased
// again.
void LeaseCheck::OnTakenOver(const RecoveredState& restored) {
  if (paused_from_) return;
  for (const JournalRecord& record : restored.journal) {
    if (const auto* round = std::get_if<RoundMade>(&record); round != nullptr && !round->lanes.empty())
      leased_until_ = std::max(leased_until_, round->first_step + round->lanes.front().assigned.count());
  }
}

// A round that another coordinator has journaled counts as begun, but perhaps nobody was told of it.
void LeaseCheck::OnAgreedScale(const ScaleSet& set) {
  OnScale(set);
  if (paused_from_) paused_from_ = std::max(*paused_from_, set.begun);
}

void LeaseCheck::CheckPause(uint64_t term, const WorkerHeartbeatReply& reply) {
  const bool stepped = options_.strategy.stepped();
  // Leases of one that was replaced are as good as any. It has not heard of the pause.
  const bool newest = term >= all_.hosts.acted_term();
  const auto check = [&](uint64_t begin, uint64_t end) {
    leased_until_ = std::max(leased_until_, end);
    if (newest && paused_from_ && (!stepped || begin >= *paused_from_))
      Violate(Invariant::kScalingPause, "step " + std::to_string(begin) + " is begun, paused from step " +
                                            std::to_string(*paused_from_) + "; " +
                                            all_.coordinators.DescribeProgress());
  };
  for (const Lease& lease : reply.leases) check(lease.first_step, lease.first_step + lease.assigned.count());
  for (const protocol::Round& round : reply.rounds) check(round.first_step, round.end());
}

}  // namespace leat::sim

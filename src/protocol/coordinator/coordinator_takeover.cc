// A coordinator that continues where a former one has stopped, while the members go on.
//
// It takes the members, the places of slices and the group from the journal. Members keep their nodes:
// workers go on with their leases, servers with their slices, a group with its steps. Each member learns of
// the new term by the answer to its next heartbeat, and then says all that it holds. Until all workers have
// done so, or are evicted, no cut of the journal is leased, because one of them may hold it. New cuts are
// leased as soon as all slices are reported.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "protocol/coordinator/coordinator_state.h"

namespace leat::protocol {

void DropReplaced(std::vector<JournalRecord>* records) {
  std::set<NodeId> left;
  std::map<SliceId, SlicesPlaced::Place> places;
  std::optional<GroupNamed> group;
  std::optional<CheckpointBegun> checkpoint;
  std::optional<JournalAgreed> agreed;
  std::optional<PassesPlanned> passes;
  std::optional<PublishersGrouped> grouped;
  std::map<NodeId, const JournalRecord*> newest;  // newest record of each member
  for (JournalRecord& record : *records) {
    if (const auto* member = std::get_if<MemberJoined>(&record)) {
      newest[member->member.node] = &record;
    } else if (const auto* gone = std::get_if<MembersLeft>(&record)) {
      left.insert(gone->nodes.begin(), gone->nodes.end());
    } else if (const auto* placed = std::get_if<SlicesPlaced>(&record)) {
      for (const SlicesPlaced::Place& place : placed->places) places[place.slice] = place;
    } else if (auto* named = std::get_if<GroupNamed>(&record)) {
      group = std::move(*named);
    } else if (const auto* begun = std::get_if<CheckpointBegun>(&record)) {
      checkpoint = *begun;
    } else if (auto* marker = std::get_if<JournalAgreed>(&record)) {
      agreed = std::move(*marker);
    } else if (auto* planned = std::get_if<PassesPlanned>(&record)) {
      passes = std::move(*planned);
    } else if (const auto* publishers = std::get_if<PublishersGrouped>(&record)) {
      grouped = *publishers;
    }
  }
  std::erase_if(*records, [&](const JournalRecord& record) {
    const auto* joined = std::get_if<MemberJoined>(&record);
    if (joined != nullptr)
      return left.contains(joined->member.node) || newest.at(joined->member.node) != &record;
    return std::holds_alternative<MembersLeft>(record) || std::holds_alternative<SlicesPlaced>(record) ||
           std::holds_alternative<GroupNamed>(record) || std::holds_alternative<CheckpointBegun>(record) ||
           std::holds_alternative<JournalAgreed>(record) || std::holds_alternative<PassesPlanned>(record) ||
           std::holds_alternative<PublishersGrouped>(record);
  });
  if (!places.empty()) {
    SlicesPlaced placed;
    for (const auto& [slice, place] : places) placed.places.push_back(place);
    records->emplace_back(std::move(placed));
  }
  if (group) records->emplace_back(std::move(*group));
  if (checkpoint) records->emplace_back(*checkpoint);
  if (agreed) records->emplace_back(std::move(*agreed));
  if (passes) records->emplace_back(std::move(*passes));
  if (grouped) records->emplace_back(*grouped);
}

bool Coordinator::State::Restore(JournalRecord& record, Former* former) {
  if (auto* joined = std::get_if<MemberJoined>(&record)) {
    const NodeId node = joined->member.node;
    former->members[node] = std::move(*joined);
  } else if (const auto* left = std::get_if<MembersLeft>(&record)) {
    for (const NodeId node : left->nodes) former->members.erase(node);
  } else if (const auto* placed = std::get_if<SlicesPlaced>(&record)) {
    former->places.insert(former->places.end(), placed->places.begin(), placed->places.end());
  } else if (auto* named = std::get_if<GroupNamed>(&record)) {
    former->group = std::move(*named);
  } else if (const auto* begun = std::get_if<CheckpointBegun>(&record)) {
    last_checkpoint_id = std::max(last_checkpoint_id, begun->id);
  } else {
    return false;
  }
  return true;
}

void Coordinator::State::TakeOver(const Former& former) {
  if (!config.take_over) {
    MembersLeft left;
    for (const auto& [node, joined] : former.members) left.nodes.push_back(node);
    if (!left.nodes.empty()) journals.push_back({std::move(left)});
    return;
  }
  // The times are set by the first OnTimer.
  for (const auto& [node, joined] : former.members) {
    // This may be one of the standbys. The others join again.
    if (joined.member.role == Role::kCoordinator) {
      journals.push_back({MembersLeft{{node}}});
      continue;
    }
    MemberState& member = members[node];
    member.member = joined.member;
    member.ready = joined.member.state != Member::State::kStandby;
    if (!member.ready) ++standing_by;
    member.host = joined.host;
    member.pid = joined.pid;
    member.process = joined.process;
    member.network = joined.network;
    member.place = joined.place;
    awaited.insert(node);
    taken_over.push_back(joined);
    if (joined.member.role == Role::kServer) {
      heartbeat_counts[node] = {};
      servers_changed = true;
    }
    if (joined.member.role == Role::kWorker && member.ready && AllReduce())
      groups.Join(Time(0), joined.member, joined.process);
  }
  if (AllReduce() && former.group) {
    std::vector<Member> group;
    for (const NodeId node : former.group->members) {
      if (const auto at = members.find(node); at != members.end()) group.push_back(at->second.member);
    }
    // Without one of its members, it has ended.
    if (group.size() == former.group->members.size()) {
      groups.Restore(former.group->id, std::move(group));
      slices.Regroup(former.group->members, Incarnation(former.group->id), false);
    }
  } else if (!AllReduce() && !former.places.empty()) {
    slices.RestorePlaces(former.places, Servers());
    NoteSite();
    for (const NodeId server : slices.Orphaned()) orphans_since[server] = Time(0);
  }
  // In stepped strategies all slices go back with those of a lost server. The former coordinator may have
  // journaled the loss alone.
  const bool goes_back = Stepped() && !AllReduce() && !orphans_since.empty();
  if (goes_back) {
    slices.RestoreAll();
    rounds.Rollback(slices.Version());
  }
  if (!goes_back) rounds.GoOn();
  if (Awaits(Role::kWorker) && !goes_back) Queue().Await();
  if (!AllReduce()) ShareLanes();
}

void Coordinator::State::OnReturned(Time now, NodeId node, const std::vector<LeaseClaim>& claims) {
  for (const LeaseClaim& claim : claims) {
    if (claim.lease < first_id) Queue().Adopt(now, node, claim);
  }
  const MemberState& member = members.at(node);
  if (awaited.contains(node) && member.member.role == Role::kWorker && member.ready) NoteWorkers(now);
  StopAwaiting(now, node, member.member.role);
}

void Coordinator::State::StopAwaiting(Time now, NodeId node, Role role) {
  if (awaited.erase(node) == 0 || role != Role::kWorker || Awaits(role)) return;
  Queue().EndAwait(now, heartbeat_counts);
}

bool Coordinator::State::Awaits(Role role) const {
  return std::ranges::any_of(awaited, [&](NodeId node) { return members.at(node).member.role == role; });
}

std::string Coordinator::State::Awaited() const {
  return Joined(awaited, ", ", [this](NodeId node) { return Name(members.at(node).member); });
}

// Nothing of this input happens: the other coordinator has not seen it.
void Coordinator::State::Replaced(const Status& why) {
  ending = Ending::kEnded;
  journals.clear();
  replies.clear();
  later.clear();
  later.emplace_back(JobEnded{why, false, {}});
}

}  // namespace leat::protocol

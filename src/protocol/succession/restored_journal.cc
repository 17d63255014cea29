#include "protocol/succession/restored_journal.h"

#include <algorithm>
#include <set>
#include <utility>

namespace leat::protocol {

namespace {

void Restore(CutsMade& made, RestoredJournal* journal) {
  journal->work.cuts.insert(journal->work.cuts.end(), made.cuts.begin(), made.cuts.end());
}
void Restore(RoundMade& round, RestoredJournal* journal) {
  for (const RoundMade::Lane& lane : round.lanes) journal->work.cuts.push_back(lane.cut);
  journal->work.rounds.push_back(std::move(round));
}
void Restore(StreamStart& start, RestoredJournal* journal) {
  if (!journal->start) journal->start = std::move(start);
}
void Restore(IdsReserved& ids, RestoredJournal* journal) {
  journal->ids.node = std::max(journal->ids.node, ids.node);
  journal->ids.lease = std::max(journal->ids.lease, ids.lease);
}
void Restore(RateRaised& raised, RestoredJournal* journal) {
  journal->rates.push_back(std::move(raised));
}
void Restore(LabelsMarked& marked, RestoredJournal* journal) {
  journal->labels.push_back(std::move(marked));
}
void Restore(MemberJoined& joined, RestoredJournal* journal) {
  const NodeId node = joined.member.node;
  journal->members[node] = std::move(joined);
}
void Restore(MembersLeft& left, RestoredJournal* journal) {
  for (const NodeId node : left.nodes) journal->members.erase(node);
}
void Restore(SlicesPlaced& placed, RestoredJournal* journal) {
  journal->places.insert(journal->places.end(), placed.places.begin(), placed.places.end());
}
void Restore(GroupNamed& named, RestoredJournal* journal) {
  journal->group = std::move(named);
}
void Restore(CheckpointBegun& begun, RestoredJournal* journal) {
  journal->last_checkpoint = std::max(journal->last_checkpoint, begun.id);
}
void Restore(LanesSet& lanes, RestoredJournal* journal) {
  journal->lanes.push_back(lanes);
}
void Restore(ScaleSet& scale, RestoredJournal* journal) {
  journal->scale = scale;
}
// Elections are over before a coordinator goes on with the journal.
void Restore(JournalAgreed&, RestoredJournal*) {}
void Restore(PassesPlanned& planned, RestoredJournal* journal) {
  journal->passes = std::move(planned);
}
void Restore(PublishersGrouped& grouped, RestoredJournal* journal) {
  journal->publishers = grouped;
}

}  // namespace

RestoredJournal ReadJournal(std::vector<JournalRecord> records) {
  RestoredJournal journal;
  for (JournalRecord& record : records) std::visit([&journal](auto& one) { Restore(one, &journal); }, record);
  return journal;
}

void DropReplaced(std::vector<JournalRecord>* records) {
  std::set<NodeId> left;
  std::map<SliceId, SliceAssignment> places;
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
      for (const SliceAssignment& place : placed->places) places[place.slice] = place;
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

}  // namespace leat::protocol

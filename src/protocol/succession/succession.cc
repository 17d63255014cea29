#include "protocol/succession/succession.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace leat::protocol {

// The content of a journal, sorted by concern. Lists are in its order.
struct RestoredJournal {
  IdsReserved ids;                         // the highest of all records
  std::map<NodeId, MemberJoined> members;  // members that have not left, as recorded last
  std::vector<SliceAssignment> places;
  std::optional<GroupNamed> group;  // the last one
  std::optional<StreamStart> start;
  RestoredWork work;
  std::optional<PassesPlanned> passes;
  std::vector<RateRaised> rates;
  std::vector<LanesSet> lanes;
  std::vector<LabelsMarked> labels;
  std::optional<PublishersGrouped> publishers;
  std::optional<ScaleSet> scale;
  uint64_t last_checkpoint = 0;

  void Add(CutsMade& made) { work.cuts.insert(work.cuts.end(), made.cuts.begin(), made.cuts.end()); }
  void Add(RoundMade& round) {
    for (const RoundMade::Lane& lane : round.lanes) work.cuts.push_back(lane.cut);
    work.rounds.push_back(std::move(round));
  }
  void Add(StreamStart& made) {
    if (!start) start = std::move(made);
  }
  void Add(IdsReserved& reserved) {
    ids.node = std::max(ids.node, reserved.node);
    ids.lease = std::max(ids.lease, reserved.lease);
  }
  void Add(RateRaised& raised) { rates.push_back(std::move(raised)); }
  void Add(LabelsMarked& marked) { labels.push_back(std::move(marked)); }
  void Add(MemberJoined& joined) { members.insert_or_assign(joined.member.node, joined); }
  void Add(MembersLeft& left) {
    for (const NodeId node : left.nodes) members.erase(node);
  }
  void Add(SlicesPlaced& placed) { places.insert(places.end(), placed.places.begin(), placed.places.end()); }
  void Add(GroupNamed& named) { group = std::move(named); }
  void Add(CheckpointBegun& begun) { last_checkpoint = std::max(last_checkpoint, begun.id); }
  void Add(LanesSet& set) { lanes.push_back(set); }
  void Add(ScaleSet& set) { scale = set; }
  void Add(JournalAgreed&) {}  // elections are over before a coordinator goes on with the journal
  void Add(PassesPlanned& planned) { passes = std::move(planned); }
  void Add(PublishersGrouped& grouped) { publishers = grouped; }
};

void DropReplaced(std::vector<JournalRecord>* records) {
  const auto only_last_counts = [](const JournalRecord& record) {
    return std::holds_alternative<GroupNamed>(record) || std::holds_alternative<CheckpointBegun>(record) ||
           std::holds_alternative<JournalAgreed>(record) || std::holds_alternative<PassesPlanned>(record) ||
           std::holds_alternative<PublishersGrouped>(record);
  };
  std::set<NodeId> gone;
  std::map<SliceId, SliceAssignment> places;
  std::map<NodeId, const JournalRecord*> newest;  // newest record of each member
  std::map<size_t, JournalRecord> last;           // by kind
  for (JournalRecord& record : *records) {
    if (const auto* member = std::get_if<MemberJoined>(&record)) {
      newest[member->member.node] = &record;
    } else if (const auto* left = std::get_if<MembersLeft>(&record)) {
      gone.insert(left->nodes.begin(), left->nodes.end());
    } else if (const auto* some = std::get_if<SlicesPlaced>(&record)) {
      for (const SliceAssignment& place : some->places) places[place.slice] = place;
    } else if (only_last_counts(record)) {
      last.insert_or_assign(record.index(), std::move(record));
    }
  }
  std::erase_if(*records, [&](const JournalRecord& record) {
    if (const auto* joined = std::get_if<MemberJoined>(&record))
      return gone.contains(joined->member.node) || newest.at(joined->member.node) != &record;
    return std::holds_alternative<MembersLeft>(record) || std::holds_alternative<SlicesPlaced>(record) ||
           only_last_counts(record);
  });
  SlicesPlaced placed;
  for (const auto& [slice, place] : places) placed.places.push_back(place);
  if (!places.empty()) records->emplace_back(std::move(placed));
  for (auto& [kind, record] : last) records->push_back(std::move(record));
}

void Succession::Restore(RecoveredState state) {
  RestoredJournal journal;
  for (JournalRecord& record : state.journal) {
    std::visit([&journal](auto& one) { journal.Add(one); }, record);
  }
  to_.outbox.Restore(journal.ids);
  for (RateRaised& raised : journal.rates) to_.leases.cursors().rates().Add(std::move(raised));
  for (const LanesSet& lanes : journal.lanes) to_.leases.rounds().RestoreLanes(lanes);
  for (const LabelsMarked& marked : journal.labels) {
    if (const Status good = to_.leases.cursors().RestoreMarks(marked); !good.ok())
      throw std::invalid_argument("the journal has a wrong " + good.message());
  }
  if (journal.scale) to_.scale.Restore(*journal.scale, settings_.take_over);
  RestoreStream(journal, state.manifest.has_value());
  to_.checkpoints.RestoreIds(std::max(journal.last_checkpoint, state.last_checkpoint));
  if (state.manifest) {
    const std::vector<Cut>& open = state.manifest->open;
    journal.work.cuts.insert(journal.work.cuts.end(), open.begin(), open.end());
    to_.checkpoints.Restore(std::move(*state.manifest));
  }
  if (journal.start) to_.leases.Restore(std::move(journal.work));
  to_.scale.RestorePause(settings_.take_over);
  to_.leases.BeginTerm();
  if (settings_.take_over) return TakeOver(journal);
  MembersLeft left;
  for (const auto& [node, joined] : journal.members) left.nodes.push_back(node);
  if (!left.nodes.empty()) to_.outbox.Journal(std::move(left));
}

void Succession::RestoreStream(const RestoredJournal& journal, bool has_checkpoint) {
  PartitionCursors& cursors = to_.leases.cursors();
  if (journal.start && journal.start->start.size() != cursors.size()) {
    throw std::invalid_argument("the journal has " + std::to_string(journal.start->start.size()) +
                                " partitions; the stream has " + std::to_string(cursors.size()));
  }
  if (!journal.start && (has_checkpoint || !journal.work.cuts.empty()))
    throw std::invalid_argument("the journal has cuts but no start of the stream");
  to_.predictions.Restore(journal.publishers, journal.start.has_value(), journal.work.cuts);
  if (!journal.start) return;
  cursors.Start(journal.start->start);
  to_.placement.map().SetStart(journal.start->start);
  if (journal.passes) cursors.RestorePasses(*journal.passes);
}

void Succession::TakeOver(const RestoredJournal& journal) {
  const MemberSettings& job = to_.roster.settings();
  // The times are set by the first OnTimer.
  for (const auto& [node, joined] : journal.members) {
    // This may be one of the standbys. The others join again.
    if (joined.member.role == Role::kCoordinator) {
      to_.outbox.Journal(MembersLeft{{node}});
      continue;
    }
    const MemberState& member = to_.roster.Restore(joined);
    to_.returning.Await(joined);
    if (member.Is(Role::kServer)) to_.transfers.OnServersChanged();
    if (member.Is(Role::kWorker) && member.ready && job.all_reduce()) to_.groups.Join(Time(0), member);
  }
  if (job.all_reduce() && journal.group) {
    to_.groups.Restore(*journal.group);
  } else if (!job.all_reduce() && !journal.places.empty()) {
    to_.placement.Restore(journal.places);
  }
  // In stepped strategies all slices go back with those of a lost server. The former coordinator may have
  // journaled the loss alone.
  const bool goes_back = job.stepped() && !job.all_reduce() && to_.placement.any_orphan();
  if (goes_back) to_.placement.map().RestoreAll();
  to_.leases.TakeOver(goes_back, to_.returning.Awaits(Role::kWorker));
}

void Succession::OnReturned(Time now, NodeId node, const std::vector<LeaseClaim>& claims) {
  to_.leases.Adopt(now, node, claims);
  const MemberState& member = to_.roster.At(node);
  if (to_.returning.Awaits(node) && member.Is(Role::kWorker) && member.ready)
    to_.slots.OnReady(now, to_.scale.WantedWorkers());
  StopAwaiting(now, node, member.member.role);
}

void Succession::StopAwaiting(Time now, NodeId node, Role role) {
  if (to_.returning.EndWait(node, role)) to_.leases.queue().EndAwait(now, to_.roster.heartbeats());
}

}  // namespace leat::protocol

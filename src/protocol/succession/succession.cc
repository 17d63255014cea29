#include "protocol/succession/succession.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace leat::protocol {

void Succession::Restore(RecoveredState state) {
  RestoredJournal journal = ReadJournal(std::move(state.journal));
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
  settings_.take_over ? TakeOver(journal) : LeaveMembers(journal);
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

void Succession::LeaveMembers(const RestoredJournal& journal) {
  MembersLeft left;
  for (const auto& [node, joined] : journal.members) left.nodes.push_back(node);
  if (!left.nodes.empty()) to_.outbox.Journal(std::move(left));
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

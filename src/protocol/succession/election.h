// Elections of a coordinator, of those with directories of their own: what members promise, which of them are
// electors, and who stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/rng.h"
#include "protocol/messages_control.h"
#include "protocol/records/journal.h"

namespace leat::protocol {

// Promises of a member to coordinators with directories of their own: a state machine beside the member's.
//
// A member whose coordinator does not answer calls the standbys. A standby that wants to be its coordinator
// answers with a Candidacy; the member promises a term to one candidate, and from then on ignores every reply
// of a lower term. It promises nothing to a candidate outside the newest set of coordinators that it knows.
// It forgets nothing while the process is this node.
//
// An evicted member may still be an elector in the journal of a standby, and the coordinator may be lost
// before it names others. So the process goes on voting as this node until it has joined again; afterwards
// nobody asks it as this node.
class Promises {
 public:
  // As a new node, of the coordinator of this term.
  void OnJoined(NodeId node, uint64_t term);
  // Goes into each heartbeat.
  ElectorState state() const { return {promised_, set_.term, set_.epoch}; }
  // The reply to a heartbeat. False: the rest of it does not count.
  bool OnReply(const ControlReply& reply);
  // The coordinator waits for the next heartbeat.
  bool TakeUrgent() { return std::exchange(urgent_, false); }
  Promise OnCandidacy(const Candidacy& candidacy);
  // The heartbeat of an evicted server or worker: a coordinator refuses it as a member, a candidate counts it
  // as a call.
  ControlRequest MakeHeartbeat(Role role) const;

  NodeId node() const { return node_; }  // 0: it has never joined
  uint64_t promised() const { return promised_; }

 private:
  bool Take(uint64_t term, const std::optional<CoordinatorSet>& coordinators, bool waiting);

  NodeId node_;
  uint64_t promised_ = 0;     // the highest term, by a promise or because the member follows it
  uint64_t promised_to_ = 0;  // the candidate; 0: it follows the coordinator of this term
  CoordinatorSet set_;        // the newest that it knows
  bool urgent_ = false;
};

// The role whose members elect in a job with this strategy.
inline Role ElectorRole(const StrategyConfig& strategy) {
  return strategy.on_servers() ? Role::kServer : Role::kWorker;
}

// The electors of a job's coordinators: some of its servers, or of its workers if it has no servers.
//
// Their number is odd (JournalReplication): a majority of 2n is one more than of 2n - 1, and bears as many
// losses.
//
// Electors are named by records of the journal (JournalAgreed), the next ones only once the record before is
// agreed (JournalReplication), and once more when theirs is. A coordinator does not always know that, so
// there may be two electorates at the end of its journal, and a majority is a majority of both. All
// coordinators of a set have every agreed record, in the same order; any two of them have the last agreed
// electorate in common, and so any two majorities have a member in common.
class Electorate {
 public:
  // Nobody yet. `role`: kServer or kWorker.
  explicit Electorate(Role role) : role_(role) {}

  // The next record of the journal, which ends at `position` of it.
  void OnRecord(uint64_t position, const JournalRecord& record);
  // All records before `position` are agreed.
  void OnAgreed(uint64_t position);
  // These electors are known to be agreed.
  void OnAgreedElectors(const std::vector<NodeId>& electors);
  // Positions begin anew, and no record is known to be agreed.
  void Rebase();

  // False if there is no electorate.
  bool Majority(const std::function<bool(NodeId)>& has) const;
  bool Empty() const { return versions_.front().nodes.empty(); }
  bool Settled() const { return versions_.size() == 1; }  // the agreed one is the current one
  bool Contains(NodeId node) const;                       // as an elector of any version
  std::vector<NodeId> agreed() const;
  std::vector<NodeId> newest() const;

  // Members of the role, whether they are electors or not.
  const std::set<NodeId>& joined() const { return joined_; }
  // The slices have been placed, or there has been a group: members hold something of the job.
  bool placed() const { return placed_; }

 private:
  struct Version {
    uint64_t position = 0;  // position of the record by which it began
    std::set<NodeId> nodes;
  };

  Role role_;
  std::vector<Version> versions_ = std::vector<Version>(1);  // ascending; the first is the agreed one
  std::set<NodeId> joined_;
  bool placed_ = false;
};

struct CandidateConfig {
  uint64_t coordinator = 0;  // number of its directory
  // The term of its journal is its own: it was not a standby in that term. If no elector knows of a set, it
  // has been the only coordinator.
  bool founder = false;
  uint64_t term = 0;  // the highest that its directory knows
  uint64_t seed = 1;  // seed of the pauses between attempts
  // Members that have called within this time are without a coordinator.
  Duration recent = std::chrono::milliseconds(1500);
  Duration attempt = std::chrono::seconds(1);  // for promises; another term follows after a pause
  Duration defer = std::chrono::seconds(3);  // to another one that was promised a term, until it has started
  Duration least_pause = std::chrono::milliseconds(100);
  Duration most_pause = std::chrono::milliseconds(600);
};

// A coordinator that wants to be elected: a standby that has lost its coordinator, or a coordinator that was
// restarted, whose job may have another one by now.
//
// It stands for a term once a majority of the electors call it because their own coordinator does not answer.
// It wins with promises of a majority, if the newest set of coordinators that these know has it. Then it has
// every record that was acted on: a coordinator acts on nothing that one of its set lacks, and a set without
// this candidate would be known to one of the electors. Records of its journal that were not acted on do no
// harm: nobody has seen an effect of them, and from now on they are part of the only journal.
class Candidate {
 public:
  Candidate(CandidateConfig config, Electorate electorate);

  // A heartbeat of a member, which follows the coordinator of `term`. `may_stand`: the candidate's own
  // coordinator does not answer either. Returns what the member is to be answered with; none: nothing yet.
  std::optional<Candidacy> OnCall(Time now, bool may_stand, NodeId node, uint64_t term,
                                  const ElectorState& state);
  void OnPromise(const Promise& promise);
  void OnTimer(Time now);

  // The term for which a majority has elected it.
  std::optional<uint64_t> elected() const;
  // A majority knows a set of coordinators without it: it lacks records. A set of an earlier term than that
  // of its directory says nothing about it: the later coordinator was elected without it.
  bool excluded() const { return excluded_; }
  uint64_t term() const { return term_; }  // the term that it stands for, or the highest that it has heard of

 private:
  void Hear(uint64_t term);
  bool Excludes(const CoordinatorSet& set) const;

  const CandidateConfig config_;
  const Electorate electorate_;
  Rng rng_;
  uint64_t highest_ = 0;
  std::map<NodeId, Time> called_;  // electors
  std::optional<Time> standing_;   // since when
  Time resume_{0};
  uint64_t term_ = 0;
  CoordinatorSet newest_;                      // the newest set that a member has told it of
  std::map<NodeId, CoordinatorSet> promises_;  // for this term: what they know
  std::map<NodeId, CoordinatorSet> refused_;   // for this term: sets without it
  bool excluded_ = false;
  bool eligible_ = false;  // by the newest set that a majority knows
};

}  // namespace leat::protocol

// A coordinator that wants to be elected: a standby that has lost its coordinator, or a coordinator that was
// restarted, whose job may have another one by now.
//
// It stands for a term once a majority of the electors call it because their own coordinator does not answer.
// It wins with promises of a majority, if the newest set of coordinators that these know has it. Then it has
// every record that was acted on: a coordinator acts on nothing that one of its set lacks, and a set without
// this candidate would be known to one of the electors. Records of its journal that were not acted on do no
// harm: nobody has seen an effect of them, and from now on they are part of the only journal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/rng.h"
#include "protocol/messages_control.h"
#include "protocol/succession/electorate.h"

namespace leat::protocol {

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

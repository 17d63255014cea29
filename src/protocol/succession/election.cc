#include "protocol/succession/election.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "protocol/guards.h"

namespace leat::protocol {

void Promises::OnJoined(NodeId node, uint64_t term) {
  *this = {};
  node_ = node;
  promised_ = term;
}

bool Promises::OnReply(const ControlReply& reply) {
  const auto take = [this](const auto* answer) {
    return answer == nullptr || Take(answer->term, answer->coordinators, answer->waiting);
  };
  return take(std::get_if<WorkerHeartbeatReply>(&reply)) && take(std::get_if<ServerHeartbeatReply>(&reply));
}

bool Promises::Take(uint64_t term, const std::optional<CoordinatorSet>& coordinators, bool waiting) {
  if (!guards::CurrentTerm(term, promised_)) return false;
  if (SameRun(term, promised_) && term > promised_) {
    promised_ = term;
    promised_to_ = 0;
  }
  if (coordinators && coordinators->term == term && coordinators->NewerThan(set_)) {
    set_ = *coordinators;
    urgent_ = true;
  }
  return !waiting;
}

Promise Promises::OnCandidacy(const Candidacy& candidacy) {
  const bool higher = SameRun(candidacy.term, promised_) && candidacy.term > promised_;
  const bool again = candidacy.term == promised_ && candidacy.candidate == promised_to_;
  const CoordinatorSet& told = candidacy.coordinators;
  if (SameRun(told.term, promised_) && told.NewerThan(set_)) set_ = told;
  const bool may = set_.term == 0 || set_.Contains(candidacy.candidate);
  Promise promise{
      .node = node_, .term = candidacy.term, .candidate = candidacy.candidate, .coordinators = set_};
  promise.granted = may && (higher || again);
  if (promise.granted) {
    promised_ = candidacy.term;
    promised_to_ = candidacy.candidate;
  }
  promise.promised = promised_;
  return promise;
}

ControlRequest Promises::MakeHeartbeat(Role role) const {
  const auto fill = [this](auto heartbeat) -> ControlRequest {
    heartbeat.node = node_;
    heartbeat.term = promised_;
    heartbeat.elector = state();
    return heartbeat;
  };
  return role == Role::kServer ? fill(ServerHeartbeat()) : fill(WorkerHeartbeat());
}

void Electorate::OnRecord(uint64_t position, const JournalRecord& record) {
  if (const auto* named = std::get_if<JournalAgreed>(&record)) {
    Version next{position, {named->electors.begin(), named->electors.end()}};
    if (next.nodes.empty()) return;
    // The one before was agreed when this record was written.
    versions_.erase(versions_.begin(), std::prev(versions_.end()));
    if (next.nodes == versions_.back().nodes) return;
    if (Empty()) versions_.clear();
    versions_.push_back(std::move(next));
  } else if (const auto* member = std::get_if<MemberJoined>(&record)) {
    if (member->member.role == role_) joined_.insert(member->member.node);
  } else if (const auto* left = std::get_if<MembersLeft>(&record)) {
    for (const NodeId node : left->nodes) joined_.erase(node);
  } else {
    placed_ =
        placed_ || std::holds_alternative<SlicesPlaced>(record) || std::holds_alternative<GroupNamed>(record);
  }
}

void Electorate::OnAgreed(uint64_t position) {
  if (versions_.back().position <= position) versions_.erase(versions_.begin(), std::prev(versions_.end()));
}

void Electorate::OnAgreedElectors(const std::vector<NodeId>& electors) {
  if (std::ranges::equal(versions_.back().nodes, electors)) OnAgreed(versions_.back().position);
}

void Electorate::Rebase() {
  for (Version& version : versions_) version.position = 0;
}

bool Electorate::Majority(const std::function<bool(NodeId)>& has) const {
  return std::ranges::all_of(versions_, [&](const Version& version) {
    const auto votes = static_cast<size_t>(std::ranges::count_if(version.nodes, has));
    return !version.nodes.empty() && guards::Majority(votes, version.nodes.size());
  });
}

bool Electorate::Contains(NodeId node) const {
  return std::ranges::any_of(versions_,
                             [node](const Version& version) { return version.nodes.contains(node); });
}

std::vector<NodeId> Electorate::agreed() const {
  return {versions_.front().nodes.begin(), versions_.front().nodes.end()};
}

std::vector<NodeId> Electorate::newest() const {
  return {versions_.back().nodes.begin(), versions_.back().nodes.end()};
}

Candidate::Candidate(CandidateConfig config, Electorate electorate)
    : config_(config),
      electorate_(std::move(electorate)),
      rng_(config.seed),
      highest_(config.term),
      term_(config.term) {}

void Candidate::Hear(uint64_t term) {
  if (SameRun(term, highest_)) highest_ = std::max(highest_, term);
}

std::optional<Candidacy> Candidate::OnCall(Time now, bool may_stand, NodeId node, uint64_t term,
                                           const ElectorState& state) {
  if (!SameRun(term, highest_) || excluded_) return std::nullopt;
  // Another candidate is being elected, or was.
  const bool other = SameRun(state.promised, highest_) && state.promised > highest_;
  if (other && !standing_) resume_ = std::max(resume_, now + config_.defer);
  Hear(term);
  Hear(state.promised);
  if (!electorate_.Contains(node)) return std::nullopt;
  called_[node] = now;
  if (!standing_ && may_stand && now >= resume_) {
    const auto calls = [&](NodeId elector) {
      const auto at = called_.find(elector);
      return at != called_.end() && now - at->second <= config_.recent;
    };
    if (!electorate_.Majority(calls)) return std::nullopt;
    standing_ = now;
    term_ = highest_ + 1;
    Hear(term_);
    promises_.clear();
    refused_.clear();
    eligible_ = false;
  }
  if (!standing_) return std::nullopt;
  // It may know a newer set from another member by now.
  const auto refused = refused_.find(node);
  if (refused != refused_.end() && !newest_.NewerThan(refused->second)) return std::nullopt;
  return Candidacy{term_, config_.coordinator, newest_};
}

void Candidate::OnPromise(const Promise& promise) {
  Hear(promise.promised);
  if (promise.coordinators.NewerThan(newest_)) newest_ = promise.coordinators;
  if (!standing_ || promise.term != term_ || promise.candidate != config_.coordinator) return;
  if (promise.granted) {
    promises_[promise.node] = promise.coordinators;
    refused_.erase(promise.node);
  } else if (promise.coordinators.term != 0 && !promise.coordinators.Contains(config_.coordinator)) {
    refused_[promise.node] = promise.coordinators;
    excluded_ = electorate_.Majority([this](NodeId node) {
      const auto refused = refused_.find(node);
      return refused != refused_.end() && Excludes(refused->second);
    });
    eligible_ = eligible_ && !excluded_;
    return;
  }
  if (!electorate_.Majority([this](NodeId node) { return promises_.contains(node); })) return;
  CoordinatorSet newest;
  for (const auto& [node, set] : promises_) {
    if (set.NewerThan(newest)) newest = set;
  }
  excluded_ = newest.term != 0 && !newest.Contains(config_.coordinator);
  eligible_ = newest.term == 0 ? config_.founder : !excluded_;
}

bool Candidate::Excludes(const CoordinatorSet& set) const {
  return set.term >= config_.term && !newest_.NewerThan(set);
}

void Candidate::OnTimer(Time now) {
  if (!standing_ || elected() || now - *standing_ < config_.attempt) return;
  standing_.reset();
  // Members that know a set without it elect another one, which needs their calls for that. A majority that
  // knows of no set does the same: it elects the coordinator of its term.
  const bool outsider =
      !refused_.empty() || electorate_.Majority([this](NodeId node) { return promises_.contains(node); });
  resume_ = now + (outsider ? 3 * config_.defer : Duration::zero()) + config_.least_pause +
            FromSeconds(Seconds(config_.most_pause - config_.least_pause) * rng_.Uniform());
}

std::optional<uint64_t> Candidate::elected() const {
  if (!standing_ || !eligible_) return std::nullopt;
  if (!electorate_.Majority([this](NodeId node) { return promises_.contains(node); })) return std::nullopt;
  return term_;
}

}  // namespace leat::protocol

#include "protocol/succession/candidate.h"

#include <algorithm>
#include <utility>

namespace leat::protocol {

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

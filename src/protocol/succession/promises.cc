#include "protocol/succession/promises.h"

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

}  // namespace leat::protocol

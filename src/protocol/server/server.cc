#include "protocol/server/server.h"

#include "protocol/guards.h"

namespace leat::protocol {

Server::Server(ServerConfig config)
    : PushDesk(std::move(config)),
      reports_(slices_.size(), slices_.job().config().max_report_bytes),
      checkpoints_(slices_, forwards_) {}

// ---- heartbeats

ServerHeartbeat Server::MakeHeartbeat() {
  ServerHeartbeat heartbeat;
  heartbeat.node = node_;
  heartbeat.term = term_;
  heartbeat.generation = view().generation;
  heartbeat.leaving = leaving_;
  figures_.Report(&heartbeat);
  slices_.Report(&heartbeat);
  // Arrived slices are reported before they are held, so that the coordinator knows all runs that the former
  // server has taken when it makes the move.
  const auto ledgers = [this] {
    std::vector<LedgerReport> reports = slices_.Ledgers();
    moves_.ReportLedgers(&reports);
    return reports;
  };
  reports_.Fill(ledgers, &heartbeat);
  steps_.Prune();
  checkpoints_.Report(&heartbeat);
  moves_.Report(&heartbeat);
  orders_.Report(&heartbeat);
  slices_.ReportTraffic(&heartbeat);
  slices_.signals().heartbeat_urgent = false;
  return heartbeat;
}

std::vector<ServerAction> Server::OnHeartbeatReply(const ServerHeartbeatReply& reply) {
  std::vector<ServerAction> actions;
  if (!guards::CurrentTerm(reply.term, term_)) return actions;
  if (reply.evicted) {
    orders_.OnEvicted();
    steps_.OnChanges(slices_.TakeChanges());
    forwards_.DropUnusedLinks();
    moves_.Take({}, {});
    moves_.ForgetArrived();
    slices_.KeepNothing();
    TakeView(View());
    actions.emplace_back(StopRole{true});
    return actions;
  }
  if (reply.term != term_ && !reply.stop) {
    // A new coordinator knows nothing of the slices yet.
    term_ = reply.term;
    reports_.Restart();
    slices_.signals().heartbeat_urgent = true;
    return actions;
  }
  // The next part is sent at once.
  if (reports_.OnReply(reply.report, reply.part)) slices_.signals().heartbeat_urgent = true;
  if (reply.view) TakeView(reply.view);
  slices_.job().SetStart(reply.start);
  LoadSlices loads;
  const bool promoted = orders_.Take(reply, &loads);
  steps_.OnChanges(slices_.TakeChanges());
  forwards_.TakeReplicated(reply.replicated);
  steps_.OnOrders(promoted);
  moves_.Take(reply.moves, reply.incoming);
  if (reply.drain) leaving_ = true;
  if (!loads.orders.empty()) actions.emplace_back(std::move(loads));
  if (auto save = checkpoints_.Take(reply.checkpoint)) actions.emplace_back(std::move(*save));
  if (reply.stop) actions.emplace_back(StopRole{false});
  return actions;
}

// ---- inputs that concern several

}  // namespace leat::protocol

#include "run/roles/commit/stalled_replies.h"

#include <variant>

namespace leat::roles {

void StalledReplies::OnReply(uint64_t call, const protocol::ControlReply& reply) {
  const auto server = calls_.extract(call);
  if (!server) return;
  // A member of another run is evicted, whatever its node.
  const auto* const sent = std::get_if<protocol::ServerHeartbeatReply>(&reply);
  if (sent == nullptr || sent->evicted) return;
  last_[server.mapped()] = *sent;
  last_[server.mapped()].record.reset();
}

void StalledReplies::OnView(const protocol::View& view) {
  std::erase_if(last_, [&](const auto& server) { return view.Find(server.first) == nullptr; });
}

bool StalledReplies::Strip(const protocol::ControlRequest& request, bool knows_coordinator, bool may_end,
                           protocol::ControlReply* reply) const {
  auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(reply);
  auto* server = std::get_if<protocol::ServerHeartbeatReply>(reply);
  // A member is not sent away by a coordinator that may have been replaced.
  const auto ends = [](const auto* told) { return told != nullptr && (told->evicted || told->stop); };
  if (!may_end && (ends(worker) || ends(server))) return false;
  if (worker != nullptr) {
    *worker = {
        .term = worker->term, .evicted = worker->evicted, .stop = worker->stop, .revoked = worker->revoked};
    return true;
  }
  if (server != nullptr)
    return StripServer(std::get<protocol::ServerHeartbeat>(request), knows_coordinator, server);
  if (auto* feed = std::get_if<protocol::FeedHeartbeatReply>(reply)) {
    feed->drain = false;
    return true;
  }
  if (auto* serve = std::get_if<protocol::ServeHeartbeatReply>(reply)) {
    serve->drain = false;
    serve->view = {};
    return true;
  }
  return std::holds_alternative<protocol::BotsHeartbeatReply>(*reply) ||
         std::holds_alternative<protocol::JobReply>(*reply);
}

bool StalledReplies::StripServer(const protocol::ServerHeartbeat& heartbeat, bool knows_coordinator,
                                 protocol::ServerHeartbeatReply* reply) const {
  if (reply->evicted || reply->stop || !knows_coordinator) return true;
  const auto last = last_.find(heartbeat.node);
  if (last == last_.end()) return false;  // it has not been told its slices
  *reply = last->second;
  reply->view = {};
  reply->checkpoint.reset();
  // It keeps the slices that have arrived: they may be its own by now.
  for (const protocol::MoveReport& move : heartbeat.moves) reply->incoming.push_back(move.id);
  return true;
}

}  // namespace leat::roles

// Replies to heartbeats while the journal cannot be written: they say nothing that depends on a record which
// is not on disk. They change nothing, so that members do not take the coordinator for lost. Loop's thread
// only.
#pragma once

#include <cstdint>
#include <map>

#include "protocol/messages_control.h"

namespace leat::roles {

class StalledReplies {
 public:
  // The coordinator is going to answer the server's heartbeat, which knows this coordinator.
  void OnServer(uint64_t call, NodeId node) { calls_[call] = node; }
  // The reply is sent. The last one to each server is kept.
  void OnReply(uint64_t call, const protocol::ControlReply& reply);
  // Forgets servers that are no members.
  void OnView(const protocol::View& view);

  // Removes what depends on the journal from a reply. `knows_coordinator`: the member has heard of this
  // coordinator. `may_end`: the reply may send the member away, because no other coordinator can have taken
  // over. False: the request gets its reply later.
  bool Strip(const protocol::ControlRequest& request, bool knows_coordinator, bool may_end,
             protocol::ControlReply* reply) const;

 private:
  bool StripServer(const protocol::ServerHeartbeat& heartbeat, bool knows_coordinator,
                   protocol::ServerHeartbeatReply* reply) const;

  std::map<uint64_t, NodeId> calls_;  // heartbeats of servers that are not answered yet
  std::map<NodeId, protocol::ServerHeartbeatReply> last_;
};

}  // namespace leat::roles

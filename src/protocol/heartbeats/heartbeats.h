// Heartbeats: each tells the concerns what its member has, and each concern adds its part of the reply.
//
// Invariants:
// - A heartbeat that says to be of another term is heard, and changes nothing else. Its reply says the term,
//   and the next heartbeat says what the member holds.
// - A process that is no member is told that it was evicted; every member is told once the job stops its
//   members.
// - A member says what it holds before it gets anything: leases are reconciled before others are granted, and
//   the slices of a report are known before orders are given.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/heartbeats/departures.h"

namespace leat::protocol {

class Heartbeats {
 public:
  // After `max_rejected` consecutive non-finite gradients the job ends.
  Heartbeats(const Concerns& concerns, uint32_t max_rejected, Succession* succession, JobEnd* end,
             Departures* departures)
      : to_(concerns),
        job_(concerns.roster.settings()),
        slices_(concerns.placement.map()),
        max_rejected_(max_rejected),
        succession_(*succession),
        end_(*end),
        departures_(*departures) {}

  WorkerHeartbeatReply Hear(Time now, const WorkerHeartbeat& heartbeat);
  ControlReply Hear(Time now, const ServerHeartbeat& heartbeat);  // or a Refusal
  BotsHeartbeatReply Hear(Time now, const BotsHeartbeat& heartbeat);
  FeedHeartbeatReply Hear(Time now, const FeedHeartbeat& heartbeat);
  ServeHeartbeatReply Hear(Time now, const ServeHeartbeat& heartbeat);
  // The reports of a feed; node 0: the coordinator's own.
  void OnPublishers(Time now, NodeId feed, const std::vector<PublisherReport>& reports);

 private:
  using Gone = Roster::Gone;
  // Tells a member to stop that is not known, or any once the job stops its members.
  template <class Reply>
  bool TellToStop(MemberState* member, Reply* reply) const;
  template <class Heartbeat, class Reply>
  bool HearServing(Time now, const Heartbeat& heartbeat, Role role, Reply* reply);
  void OnReady(Time now, const MemberState& worker);
  void Lease(Time now, MemberState* worker, const WorkerHeartbeat& heartbeat, WorkerHeartbeatReply* reply);
  void Reduce(Time now, const WorkerHeartbeat& heartbeat, WorkerHeartbeatReply* reply);
  // Takes a server's report. Returns why the job ends.
  Status OnReport(Time now, const ServerHeartbeat& heartbeat);

  Concerns to_;
  const MemberSettings& job_;
  SliceMap& slices_;
  uint32_t max_rejected_;
  Succession& succession_;
  JobEnd& end_;
  Departures& departures_;
};

}  // namespace leat::protocol

// The members of the job, as the coordinator knows them: who has joined, in which state, when each was heard
// last, and who is gone.
//
// Invariants:
// - A member has a node that no other member has or had. Among the members of a role, and apart from them
//   among the workers that stand by, an index is given once.
// - A member is journaled (MemberJoined) before it is told of, and again when its state or index changes; its
//   loss is journaled (MembersLeft) before anything follows from it.
// - The view has all members but bots, and changes with them and their states.
// - Heartbeats are counted for exactly the members that are servers.
// - Evicted processes are remembered until they are silent or join again. They are no members.
//
// A member's loss has consequences in all concerns: only the router removes one (Coordinator).
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/members/heartbeat_counts.h"
#include "protocol/members/member_settings.h"
#include "protocol/outbox/outbox.h"

namespace leat::protocol {

struct MemberState {
  Member member;
  std::string host;
  int64_t pid = 0;
  uint64_t process = 0;  // as JoinRequest::process
  uint64_t network = 0;
  topology::HostPlace place;
  Duration round_trip{};  // to here; 0: unknown
  Time last_seen{0};      // last message of the process: a heartbeat or a keep-alive
  Time last_moved{0};     // last sign of work: a heartbeat, or kernels that have finished
  uint64_t progress = 0;
  // A worker that has sent a heartbeat: it has opened the stream and compiled its graph.
  bool ready = false;
  Generation generation;  // generation of its view; a worker's when it last held its own leases alone
  std::optional<Generation> shown;  // the first view that has it
  bool told_to_stop = false;
  std::vector<NodeId> unreachable;  // a worker's servers, as it reports
  bool isolated = false;            // it cannot reach a server that others reach, and gets no leases

  bool Is(Role role) const { return member.role == role; }
  bool stands_by() const { return member.state == Member::State::kStandby; }
  bool draining() const { return member.state == Member::State::kDraining; }
  bool active() const { return member.state == Member::State::kActive; }
  // It can take leases.
  bool trains() const { return Is(Role::kWorker) && active() && !isolated; }
};

class Roster {
 public:
  using Gone = MemberRows::Departure::How;

  Roster(const MemberSettings& settings, Outbox* outbox) : settings_(settings), outbox_(*outbox) {}

  const MemberSettings& settings() const { return settings_; }
  const std::map<NodeId, MemberState>& members() const { return members_; }
  bool Has(NodeId node) const { return members_.contains(node); }
  const MemberState& At(NodeId node) const { return members_.at(node); }
  // Null if there is none.
  const MemberState* Find(NodeId node) const;
  std::string AddressOf(NodeId node) const;  // empty: it is no member

  // ---- joining and leaving
  // Gives the member its node, and an index unless MPI has given it one, and journals it.
  const MemberState& Add(Time now, MemberState member, std::optional<uint32_t> index);
  // A member of the former coordinator. It is journaled already, and its times are set by ExcuseSilence.
  const MemberState& Restore(const MemberJoined& joined);
  void Remove(NodeId node, Gone how);
  // Remembers a member that is about to be removed, and whose process may still be alive.
  void MarkEvicted(NodeId node);
  void ForgetEvicted(uint64_t process);  // it joins again
  void SetState(NodeId node, Member::State state);
  // A worker that stands by becomes active.
  void Activate(NodeId node);

  // ---- messages
  // The member, which is heard now; null if there is none with that node and role.
  MemberState* Heard(Time now, NodeId node, Role role);
  KeepAliveReply OnKeepAlive(Time now, const KeepAlive& keep_alive, bool stopping);
  void OnServerHeartbeat(const ServerHeartbeat& heartbeat);
  // Sets the servers that a worker cannot reach, as it reports, and whether it is isolated: another worker
  // reaches one of them. If no worker reaches the server, or the coordinator has not heard from it lately,
  // the server is what is missing, and the worker is not isolated. Returns true if that has changed.
  // `awaited`: servers that have not reached this coordinator yet.
  bool SetUnreachable(Time now, NodeId worker, const std::vector<NodeId>& servers,
                      const std::set<NodeId>& awaited);

  // ---- silence
  // The members that are to be evicted, the first to become silent first: it may be the cause for the others.
  std::vector<NodeId> Silent(Time now) const;
  void ForgetSilentEvicted(Time now);
  // While the coordinator did not run, for so long, others could not be heard.
  void ExcuseSilence(Time now, Duration away);
  bool AllHaveView(Generation generation) const;  // this one, or a later one: servers and workers
  // Every member has heard that the job ends; nobody waits for one that only serves.
  bool AllToldToStop() const;

  // ---- questions
  std::vector<NodeId> Servers() const;
  const HeartbeatCounts& heartbeats() const { return heartbeat_counts_; }
  // From now on, the server has to report slices itself that others have reported until now.
  void Rely(NodeId server);
  bool Draining(NodeId node) const { return members_.at(node).draining(); }
  uint32_t Staying(Role role) const;  // members that are not to leave, without those that stand by
  // The worker that takes the next place: one on a host of the class for workers comes first. Null: none.
  const MemberState* NextStandby() const;
  uint32_t standing_by() const { return standing_by_; }  // workers
  bool AnyPlaceKnown() const;
  // The last server, for a job that has none any more; empty: it has one, or has had none.
  std::string LostServers() const;

  void AddTo(View* view);
  MemberRows rows() const;

 private:
  bool Stuck(const MemberState& member) const {
    return member.last_seen - member.last_moved >= settings_.stuck_timeout;
  }
  // `standby`: among workers that stand by.
  uint32_t LowestFreeIndex(Role role, bool standby) const;
  void Journal(const MemberState& member);  // it has joined, or its state or index is another one now
  void AddMisplaced(std::map<std::string, std::string>* lines) const;

  const MemberSettings& settings_;
  Outbox& outbox_;
  std::map<NodeId, MemberState> members_;
  std::map<NodeId, MemberState> evicted_;  // processes that are alive and have not joined again
  HeartbeatCounts heartbeat_counts_;
  uint32_t standing_by_ = 0;
  uint64_t evictions_ = 0;
  uint64_t departures_ = 0;
  std::deque<MemberRows::Departure> last_departures_;
};

}  // namespace leat::protocol

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

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "protocol/members/member_settings.h"
#include "protocol/outbox/outbox.h"

namespace leat::protocol {

// Counts of a server's heartbeats so far: they tell when it has reported its state as of a given moment.
struct HeartbeatCount {
  uint64_t heartbeats = 0;
  uint64_t report = 0;    // number of the newest report
  uint64_t begun = 0;     // the heartbeat with its first part
  uint64_t complete = 0;  // the heartbeat that began the last report whose parts have all arrived
  uint64_t silent = 0;    // until this heartbeat, others have reported some of its slices

  void Add(const ServerHeartbeat& heartbeat) {
    ++heartbeats;
    if (heartbeat.report < report) return;  // a part that was overtaken on its way
    // A part that is repeated belongs to a report that began earlier.
    if (heartbeat.report > report || report == 0) begun = heartbeats;
    report = heartbeat.report;
    if (!heartbeat.more) complete = begun;
  }
  // From now on, the server has to report slices itself that others have reported until now.
  void Rely() { silent = heartbeats; }
};

using HeartbeatCounts = std::map<NodeId, HeartbeatCount>;  // by connected server

// True if every server present `then`, and still present, has reported its whole state since. The report must
// begin with the second heartbeat after `then`: the first may have been made before `then`, the second was
// made after the first was answered.
inline bool AllReportedSince(const HeartbeatCounts& then, const HeartbeatCounts& now) {
  constexpr uint64_t kHeartbeatsNeeded = 2;
  return std::all_of(then.begin(), then.end(), [&](const auto& heartbeat) {
    const auto current = now.find(heartbeat.first);
    if (current == now.end()) return true;
    const uint64_t since = std::max(heartbeat.second.heartbeats, current->second.silent);
    return current->second.complete >= since + kHeartbeatsNeeded;
  });
}

// A member as it is journaled, and what is known of it since.
struct MemberState : MemberJoined {
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
  const MemberState* Find(NodeId node) const {
    const auto at = members_.find(node);
    return at == members_.end() ? nullptr : &at->second;
  }
  std::string AddressOf(NodeId node) const;  // empty: it is no member

  // ---- joining and leaving
  // Gives the member its node, and an index unless MPI has given it one, and journals it.
  const MemberState& Add(Time now, MemberState member, std::optional<uint32_t> index);
  // A member of the former coordinator. It is journaled already, and its times are set by ExcuseSilence.
  const MemberState& Restore(const MemberJoined& joined);
  void Remove(NodeId node, Gone how);
  // Remembers a member that is about to be removed, and whose process may still be alive.
  void MarkEvicted(NodeId node) {
    evicted_[node] = members_.at(node);
    ++evictions_;
  }
  // It joins again.
  void ForgetEvicted(uint64_t process) {
    std::erase_if(evicted_,
                  [&](const auto& entry) { return process != 0 && entry.second.process == process; });
  }
  void SetState(NodeId node, Member::State state);
  // A worker that stands by becomes active.
  void Activate(NodeId node) {
    members_.at(node).member.index = LowestFreeIndex(Role::kWorker, false);
    SetState(node, Member::State::kActive);
  }

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
  void Rely(NodeId server) {
    if (const auto at = heartbeat_counts_.find(server); at != heartbeat_counts_.end()) at->second.Rely();
  }
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
  // It has joined, or its state or index is another one now.
  void Journal(const MemberState& member) { outbox_.Journal(static_cast<const MemberJoined&>(member)); }
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

// The members of the former coordinator that this one awaits: they keep their nodes, and say what they hold
// once they have reached this coordinator.
//
// Invariant: an awaited node is a member; a member that is gone is not awaited.
class ReturningMembers {
 public:
  explicit ReturningMembers(const Roster* roster) : roster_(*roster) {}

  void Await(const MemberJoined& joined) {
    awaited_.insert(joined.member.node);
    taken_over_.push_back(joined);
  }
  // The member has reached this coordinator, or is gone. Returns true if it was the last awaited worker.
  bool EndWait(NodeId node, Role role) {
    return awaited_.erase(node) > 0 && role == Role::kWorker && !Awaits(Role::kWorker);
  }
  bool Awaits(NodeId node) const { return awaited_.contains(node); }
  bool Awaits(Role role) const {
    return std::ranges::any_of(awaited_, [&](NodeId node) { return roster_.At(node).Is(role); });
  }
  const std::set<NodeId>& awaited() const { return awaited_; }
  // "ps 0, worker 2"; empty: nobody is awaited.
  std::string Names() const {
    return Joined(awaited_, ", ", [this](NodeId node) { return Name(roster_.At(node).member); });
  }
  // As they were journaled, also those that have returned.
  const std::vector<MemberJoined>& taken_over() const { return taken_over_; }

 private:
  const Roster& roster_;
  std::vector<MemberJoined> taken_over_;
  std::set<NodeId> awaited_;
};

// The workers that a job wants, and the workers that stand by for them.
//
// Invariant: no worker that stands by becomes active before as many workers as are wanted have come once, or
// MemberSettings::standby_wait has passed since the first: those that start together become active together.
//
// The wanted number is the caller's (Scale::WantedWorkers).
class WorkerSlots {
 public:
  explicit WorkerSlots(Roster* roster) : roster_(*roster) {}

  // A worker is ready, or has returned to this coordinator.
  void OnReady(Time now, uint32_t wanted) {
    if (!first_worker_) first_worker_ = now;
    // Counts them only if there may be enough: large clusters would take long to start.
    if (all_came_ || roster_.members().size() < wanted) return;
    all_came_ = roster_.Staying(Role::kWorker) >= wanted;
  }

  // Activates workers that stand by while there are fewer than are wanted, and returns them.
  std::vector<NodeId> Fill(Time now, uint32_t wanted) {
    std::vector<NodeId> activated;
    if (roster_.standing_by() == 0) return activated;
    const bool waited = first_worker_ && now - *first_worker_ >= roster_.settings().standby_wait;
    if (!all_came_ && !waited) return activated;
    for (uint32_t active = roster_.Staying(Role::kWorker); active < wanted; ++active) {
      const MemberState* const standby = roster_.NextStandby();
      if (standby == nullptr) break;
      activated.push_back(standby->member.node);
      roster_.Activate(activated.back());
    }
    return activated;
  }

 private:
  Roster& roster_;
  std::optional<Time> first_worker_;  // when the first one was ready
  bool all_came_ = false;             // as many as are wanted
};

}  // namespace leat::protocol

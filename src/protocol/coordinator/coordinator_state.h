// The coordinator's state, for its own sources: coordinator.cc (inputs, ids, the end of the job),
// coordinator_members.cc (membership, placement of slices, heartbeats), coordinator_takeover.cc,
// coordinator_elastic.cc, coordinator_lanes.cc, coordinator_scale.cc (commands), coordinator_topology.cc
// (places of members), moves/coordinator_moves.cc, moves/coordinator_replicas.cc, coordinator_group.cc and
// coordinator_checkpoints.cc.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/allreduce/group_coordinator.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/leases/round_queue.h"
#include "protocol/leases/split_queue.h"
#include "protocol/predictions/publications.h"
#include "protocol/slices/slice_map.h"
#include "protocol/slices/slice_moves.h"
#include "protocol/slices/traffic_meter.h"

namespace leat::protocol {

struct Coordinator::State {
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
    uint64_t step = 0;     // all-reduce, as reported
    uint64_t version = 0;  // a server's, as reported
    bool paced = false;
    Generation generation;  // generation of its view; a worker's when it last held its own leases alone
    std::optional<Generation> shown;  // the first view that has it
    bool told_to_stop = false;
    std::vector<NodeId> unreachable;  // a worker's servers, as it reports
    bool isolated = false;            // it cannot reach a server that others reach, and gets no leases
  };
  struct PendingCheckpoint {
    enum class Stage : uint8_t { kPreparing, kSaving, kCommitting } stage = Stage::kPreparing;
    uint64_t id = 0;
    bool final = false;
    Time deadline{0};
    CheckpointOrder order;
    bool prepared = false;  // its directory is made
    // Recorded before any server gets the save order.
    Manifest manifest;
    std::vector<Incarnation> incarnations;
    std::map<NodeId, ShardReport> shards;
    // Stepped strategies: servers with a view of this generation know the order. Steps from its version on
    // are not leased until all servers know it, so that none can be past it.
    Generation generation;
  };
  // lanes: auto: rounds are being taken back (RoundQueue::FollowWorkers).
  struct LaneChange {
    Time since{0};
    Generation told;                          // workers with this view know that their leases are void
    std::optional<Generation> without;        // the view without the workers that have not been told
    std::optional<HeartbeatCounts> reported;  // when all servers had this view
  };
  // Unique ids: blocks of them are journaled before use.
  struct Counter {
    uint64_t next = 1;
    uint64_t reserved = 1;  // ids below are journaled
  };
  // Progress of the end of the job. If the stream was finished rather than the job stopped, the loss of a
  // server may undo everything up to kFinalCheckpoint.
  enum class Ending : uint8_t { kNone, kDraining, kFinalCheckpoint, kStoppingMembers, kEnded };
  // The journal's records about the members of the former coordinator.
  struct Former {
    std::map<NodeId, MemberJoined> members;
    std::vector<SlicesPlaced::Place> places;  // in the order of the journal
    std::optional<GroupNamed> group;
    std::optional<ScaleSet> scale;
    std::optional<PassesPlanned> passes;
  };

  State(CoordinatorConfig config, RecoveredState restored);

  // ---- coordinator.cc
  uint64_t NextId();  // for leases, incarnations and generations
  NodeId NextNode();
  void Answer(uint64_t call, ControlReply reply) { replies.push_back({call, std::move(reply)}); }
  void Refuse(uint64_t call, Code code, std::string why) {
    Answer(call, Refusal{Status(code, std::move(why))});
  }
  // Calls the request's `On`, and refuses a request that has none.
  void Dispatch(Time now, uint64_t call, const ControlRequest& request);
  void On(Time now, uint64_t call, const AdminRequest& request);
  void DispatchOfOtherRun(Time now, uint64_t call, ControlRequest request);
  void OnRange(Time now, const StreamRange& range);
  void StartStream();
  void RaiseRate();
  void RequestStop(Time now);
  void Discard(Time now);
  // Follow-up work after each input.
  void Step(Time now);
  void StepEnding(Time now);
  bool Finished() const;
  bool Drained();
  void FinishSteps(Time now);
  bool Even(Time now);
  bool FinalCheckpointDone() const;
  void StopMembers(Time now, Status outcome);
  void End(Status status);
  // It leases something, ends a role, or says that a command was obeyed.
  bool NeedsTerm(const ControlReply& reply) const;
  // Does what follows from the input, and returns what is to be done.
  CoordinatorActions Take(Time now);

  // ---- coordinator_members.cc
  void On(Time now, uint64_t call, const JoinRequest& request);
  // Whether other members connect to the address of a member of this role.
  bool Listens(Role role) const;
  // Returns why the members could not all reach each other if this one joined: kInvalidArgument if its own
  // address is the reason, kUnavailable while there is a member with such an address.
  Status CheckReachable(const JoinRequest& request) const;
  // Removes the former self of a process that joins again. Returns kUnavailable while another process has its
  // address.
  Status ReplaceFormerSelf(Time now, const JoinRequest& request);
  void On(Time now, uint64_t call, const WorkerHeartbeat& heartbeat);
  void On(Time now, uint64_t call, const ServerHeartbeat& heartbeat);
  void On(Time now, uint64_t call, const BotsHeartbeat& heartbeat);
  void On(Time now, uint64_t call, const FeedHeartbeat& heartbeat);
  void On(Time now, uint64_t call, const ServeHeartbeat& heartbeat);
  void On(Time now, uint64_t call, const JobRequest& request);
  void On(Time now, uint64_t call, const KeepAlive& keep_alive);
  // Updates last_seen and last_moved, and returns the member, or null if there is none with that node and
  // role.
  MemberState* Seen(Time now, NodeId node, Role role);
  template <class Reply>
  bool ToldToStop(MemberState* member, Reply* reply) const;
  using Gone = CoordinatorStatus::Departure::How;
  void Remove(Time now, NodeId node, Gone how);
  void NoteDeparture(const MemberState& member, Gone how);
  // The loss of a member whose process may still be alive.
  void Evict(Time now, NodeId node);
  void EvictSilent(Time now);
  bool Stuck(const MemberState& member) const {
    return member.last_seen - member.last_moved >= config.stuck_timeout;
  }
  void Isolate(Time now, NodeId worker, const std::vector<NodeId>& unreachable);
  void FreeOverdue(Time now);
  void PlaceSlices(Time now);
  void GrantLeases(Time now, NodeId worker, uint32_t wanted, std::vector<Lease>* leases);
  void GrantUneven(Time now, NodeId worker, uint32_t wanted, std::vector<Lease>* leases);
  void GrantLanes(Time now, NodeId worker, std::vector<Lease>* leases);
  void GrantRescores(Time now, const WorkerHeartbeat& heartbeat, WorkerHeartbeatReply* reply);
  void JournalMember(const MemberState& its);  // it has joined, or its state or index is another one now
  void JournalCuts(CutsMade made);
  void JournalCuts(RoundMade made);
  void AssignPublishers();
  void OnPublishers(Time now, NodeId feed, const std::vector<PublisherReport>& reports);
  Status Rejected(const ServerHeartbeat& heartbeat) const;
  bool Stepped() const { return config.strategy.stepped(); }
  // The queue from which workers lease; those of all-reduce jobs do not lease.
  LeaseBook& Queue() { return Stepped() ? static_cast<LeaseBook&>(rounds) : splits; }
  const LeaseBook& Queue() const { return Stepped() ? static_cast<const LeaseBook&>(rounds) : splits; }
  void RefreshView();
  bool AllHaveView(Generation generation) const;  // this one, or a later one: servers and workers
  // `standby`: among workers that stand by.
  uint32_t LowestFreeIndex(Role role, bool standby = false) const;
  std::vector<NodeId> Servers() const;

  // ---- coordinator_takeover.cc: from a former coordinator
  // Takes a record of the journal about the membership; false: it is about something else.
  bool Restore(JournalRecord& record, Former* former);
  void TakeOver(const Former& former);
  // A member has reached this coordinator, with these leases of the former one.
  void OnReturned(Time now, NodeId node, const std::vector<LeaseClaim>& claims);
  void StopAwaiting(Time now, NodeId node, Role role);  // it has returned, or is gone
  bool Awaits(Role role) const;
  std::string Awaited() const;  // "ps 0, worker 2"; empty: nobody
  void Replaced(const Status& why);

  // ---- coordinator_elastic.cc: workers that come and go
  void OnWorkerReady(Time now, const MemberState& worker);
  void NoteWorkers(Time now);  // whether all have come
  // The member is to hand over what it has, and to leave. Returns why it cannot.
  Status Drain(Time now, NodeId node);
  uint32_t Staying(Role role) const;  // members that are not to leave, without those that stand by
  uint32_t Places() const;            // for workers: as many as are wanted
  // Workers that stand by take the places of those that are missing.
  void FillPlaces(Time now);
  MemberState* NextStandby();
  void SetState(MemberState* member, Member::State state);

  // ---- coordinator_lanes.cc: the lanes of stepped strategies
  void ShareLanes();
  void MakeRounds(Time now);
  void FollowWorkers(Time now);
  void StepLaneChange(Time now);
  void AbandonLaneChange(Time now);

  // ---- moves/coordinator_moves.cc: slices that move between servers
  void OnMoveReports(Time now, const ServerHeartbeat& heartbeat);
  bool LacksMoved(const ServerHeartbeat& heartbeat) const;
  void AddMoves(Time now, NodeId server, ServerHeartbeatReply* reply);
  void StepMoves(Time now);
  // The servers that hold slices or are to get some, and how much (Balance::weights).
  std::vector<std::pair<NodeId, double>> WeighServers() const;
  void PlanMovesOf(Time now);
  void BeginMove(Time now);
  // Whether all slices of the move under way are where they were when it began.
  bool MoveHolds() const;
  bool IsPossible(const SliceMoves::Planned& move) const;
  void MakeMove(Time now);  // the one under way
  // By the placement and the server's wish; 0: none, if there are others.
  double WeightOf(const MemberState& member) const;
  bool Draining(NodeId server) const { return members.at(server).member.state == Member::State::kDraining; }
  bool Takes(NodeId server) const { return WeightOf(members.at(server)) > 0; }
  void BeginDraining(MemberState* server);
  // The server hands its slices over, and then leaves. Returns in one line why it must not.
  Status DrainServer(Time now, NodeId server);
  // Returns in one line why the job cannot be on this number of servers.
  Status CanScaleServers(uint32_t servers) const;
  // A server that wants to leave may go: nothing of it is needed, or nobody else can take it.
  bool MayLeave(NodeId server) const;

  // ---- coordinator_scale.cc: commands
  void RestoreScale(const ScaleSet& former);  // `former`: as journaled
  void OnScale(uint64_t call, const AdminRequest& request);
  void OnDrain(Time now, uint64_t call, const AdminRequest& request);
  void OnGrant(Time now, uint64_t call, const AdminRequest& request);
  void ReleaseBeyondGrant(Time now, Role role, uint32_t granted);
  void OnPause(uint64_t call);
  void Continue(Time now);  // ends a pause
  void NotePauseReached();
  void NoteBegun();
  // Returns why a command comes too late; ok if it does not.
  Status CheckNotEnding() const;
  // Returns why so many workers are not possible.
  Status CheckWorkers(const WorkerRange& workers) const;
  void WantFewer(Role role);
  void AwaitFewerServers();
  Placement PlacementOn(const std::vector<NodeId>& servers) const;

  // ---- coordinator_topology.cc: where members are
  // Why a role must not join because of where it is, or its place.
  Result<topology::HostPlace> CheckPlace(const JoinRequest& request) const;
  // A worker stands by if its host is of another class than the one that the job wants for workers.
  bool StandsBy(const JoinRequest& request, const topology::HostPlace& place) const;
  bool HasPlaces() const;  // some member's place is known
  // Servers that are not to hold slices because of where they are, unless all of them leave.
  std::set<NodeId> Elsewhere() const;
  // The slices had to move to another site.
  bool LeavesSite() const;
  void NoteSite();
  // Whether the job lets the server hold slices at all.
  bool SiteAllows(NodeId server) const;
  void AddPlaces(CoordinatorStatus* status) const;

  // ---- moves/coordinator_replicas.cc: slices that are on two servers
  void LoseReplica(SliceId slice);
  void OnLostReplicas(const ServerHeartbeat& heartbeat);
  bool LoseServer(Time now, NodeId server);
  void AddReplicas(NodeId server, ServerHeartbeatReply* reply) const;
  void PlanReplicas();
  uint64_t HighestVersion() const;  // the highest of any slice on any server, as far as reported

  // ---- coordinator_group.cc: all-reduce
  bool AllReduce() const { return !config.strategy.on_servers(); }
  void StepGroups(Time now);
  void OnMemberReport(Time now, const WorkerHeartbeat& heartbeat, WorkerHeartbeatReply* reply);
  void PaceMember(Time now, NodeId node, const MemberReport& report);
  // Returns why a worker cannot have the MPI rank that it joins with.
  Status CheckMpiRank(const JoinRequest& request) const;

  // ---- coordinator_checkpoints.cc
  void StartCheckpoint(Time now, bool final);
  void OnPrepared(Time now, uint64_t id, const Result<CheckpointOrder>& order);
  void BeginSaving(Time now);
  // By slice: it is in a shard of the pending checkpoint, in its current incarnation.
  std::vector<bool> Saved() const;
  void OnShard(Time now, NodeId server, const ShardReport& report);
  void OnCommitted(Time now, uint64_t id, const Status& status);
  // Slices cannot be restored, for this reason (ok: one of them, for the first time). Has the checkpoint that
  // they are restored from verified; false if there is none.
  bool Suspect(const Status& why);
  void OnVerified(Time now, uint64_t id, const Status& status);
  void StepCheckpoint(Time now);
  void GiveUpCheckpoint(Time now, const Status& why);
  void AbandonCheckpoint(Time now);
  // The size of the next checkpoint, estimated from the last one or from the slices.
  uint64_t CheckpointBytes() const;
  Duration CheckpointTimeout() const;
  std::string CheckpointWaitsFor() const;  // the one that is pending
  void AnswerCheckpointCalls(const Status& status);
  // The order for a server whose shard is still missing.
  std::optional<CheckpointOrder> CheckpointOrderFor(NodeId server) const;
  bool IncarnationsUnchanged() const;
  Status HolderLost() const;  // why a checkpoint is given up where that is false
  bool OrderKnown() const;

  CoordinatorConfig config;
  Counter ids;
  Counter nodes;
  SliceMap slices;
  PartitionCursors cursors;
  SplitQueue splits;  // if each split is trained separately
  RoundQueue rounds;  // if splits are trained side by side
  Publications publications;
  SliceMoves moves;
  TrafficMeter traffic;
  bool servers_changed = false;   // since moves were planned
  bool replicas_changed = false;  // since replicas were planned, or servers changed
  bool settled = false;           // the queues know the slices, all of which have been live since
  Time next_balance{0};           // when the load of the servers is compared next
  ScaleSet scale;                 // as wanted by the job or by commands
  std::optional<CoordinatorStatus::Grant> grant;  // grant of a pool, which repeats it
  uint32_t chosen = 0;      // the autoscaler's choice from a range of workers; 0: not known yet
  GroupCoordinator groups;  // all-reduce
  LeasePace member_pace;    // all-reduce: of each member's share of a step
  uint64_t overdue_members = 0;

  std::map<NodeId, MemberState> members;
  std::map<NodeId, MemberState> evicted;  // members whose processes are alive and have not joined again
  std::vector<MemberJoined> taken_over;   // from the former coordinator
  std::set<NodeId> awaited;               // members in taken_over that have not sent anything yet
  uint64_t first_id = 0;                  // first id of this term; lower ones are of former terms
  std::optional<LaneChange> lane_change;
  std::optional<Time> first_worker;  // when the first one was ready
  bool all_workers_came = false;     // as many as are wanted
  uint32_t standing_by = 0;          // workers
  HeartbeatCounts heartbeat_counts;
  std::optional<std::string> slice_site;  // site of most servers with slices; kept when all are lost
  std::optional<Time> servers_came;       // when there were as many as are wanted, in all sites
  std::map<NodeId, Time> orphans_since;   // since when slices are without a server, by former server
  bool view_changed = true;
  Shared<View> view = View();
  uint64_t evictions = 0;
  uint64_t departures = 0;
  std::deque<CoordinatorStatus::Departure> last_departures;

  std::optional<Manifest> durable;
  std::map<uint64_t, Manifest> kept;  // durable checkpoints by id, of this run; the last is `durable`
  // The checkpoint that is being verified, and why the job ends if it is not damaged.
  struct Suspicion {
    uint64_t checkpoint = 0;
    Status why;
  };
  std::optional<Suspicion> suspicion;
  uint64_t suspected_group = 0;  // all-reduce: the last one whose members could not restore their slices
  std::string damage;            // PassedOver of each checkpoint that was passed over
  std::optional<PendingCheckpoint> pending;
  uint64_t last_checkpoint_id = 0;
  std::optional<Time> next_checkpoint;  // by the interval
  Time retry_checkpoint{0};             // after one that failed
  uint64_t failed_checkpoints = 0;
  uint32_t failed_in_a_row = 0;
  Status checkpoint_failure;  // failure of the last one
  std::vector<uint64_t> checkpoint_calls;

  Ending ending = Ending::kNone;
  bool stop_requested = false;
  bool final_done = false;  // the checkpoint requested by a stop is durable
  Status outcome;
  std::vector<uint64_t> stop_calls;
  Time ending_deadline{0};
  std::optional<HeartbeatCounts> drained;  // stepped: when the last lease ended
  // Strategies that train each split separately: slices differ in so many runs since the job was stopped.
  struct Unevenness {
    uint64_t runs = 0;
    Time deadline{0};       // for fewer runs
    Time idle_deadline{0};  // for a worker that trains some
  };
  std::optional<Unevenness> unevenness;

  Time next_sweep{0};

  // Actions of the current input, in the order in which Take() returns them.
  std::vector<AppendJournal> journals;
  std::vector<Reply> replies;
  std::vector<CoordinatorAction> later;
};

}  // namespace leat::protocol

// The state of a virtual cluster, for its own sources: cluster.cc (the coordinator, the end of the job),
// roles.cc (servers and workers), network.cc (messages in transit), moves.cc (slices that move between
// servers), replicas.cc (what servers forward to each other), standbys.cc (coordinators with directories of
// their own), followers.cc (those that follow the parameters), prefetch.cc (cache hints), group_members.cc
// and reduce.cc (all-reduce workers and their messages), hosts.cc (links and cores), input.cc (splits that
// workers read), faults.cc, commands.cc, invariants.cc.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "lab/sim/cluster/cluster.h"
#include "lab/sim/cluster/disk.h"
#include "lab/sim/cluster/followers.h"
#include "lab/sim/cluster/labels.h"
#include "lab/sim/cluster/members.h"
#include "lab/sim/events/event_queue.h"
#include "lab/sim/events/slab.h"
#include "lab/sim/hosts/shared_cores.h"
#include "protocol/succession/candidate.h"
#include "protocol/succession/followed_journal.h"
#include "protocol/succession/promises.h"
#include "protocol/succession/replication.h"

namespace leat::sim {

using namespace protocol;  // NOLINT: this header is part of its sources

enum EventKind : uint32_t {
  kArrive = 1,    // the first byte of a message is at the receiver's link
  kDeliver = 2,   // its last byte has been received
  kComputed = 3,  // a batch
  kWake = 4,      // a role's timer
  // Among members of a group: as kArrive and kDeliver, and when the last byte has left.
  kPieceArrives = 5,
  kPieceDelivered = 6,
  kPieceSent = 7,
  // A message, or a piece, is at the link of a zone.
  kCrosses = 8,
  kPieceCrosses = 9,
  kCores = 10,  // a task ends on a host with few cores
  // Part of a split, as kArrive and kDeliver.
  kChunkArrives = 11,
  kChunkDelivered = 12,
  kMoreToSend = 13,  // a window of a message has left
};

// Addresses of coordinators. With a shared directory only the first two are used.
constexpr uint32_t kAddresses = 3;

struct Process {
  virtual ~Process() = default;
  bool alive = true;
  uint32_t calls = 0;  // the address of the coordinator that it calls
  Time paused_until{0};
  Time cut_off_until{0};                             // from all coordinators, in both directions
  std::array<Time, kAddresses> cut_from_until = {};  // from the coordinator or standby at one address
};

struct CoordinatorProcess : Process {
  uint64_t term = 0;
  uint32_t address = 0;
  std::unique_ptr<Coordinator> machine;
  std::optional<LabelStream> labels;  // the job's late labels, as this process joins them
  std::unordered_map<uint64_t, std::function<void(ControlReply)>> calls;
  bool ended = false;
  // ---- with a directory of its own
  std::optional<JournalReplication> replication;
  std::deque<std::pair<uint64_t, CoordinatorAction>> waiting;  // for this position to be agreed
  std::deque<std::pair<uint64_t, uint64_t>> disagreed;         // records, by position
  uint64_t position = 0;                                       // position of the last appended record
  std::unordered_map<uint64_t, ElectorState> electors;         // by call
  bool flushing = false;
  std::optional<Time> over_since;  // its machine has ended
};

// A coordinator with a directory of its own that is not active.
struct StandbyProcess : Process {
  uint32_t address = 0;
  std::optional<FollowedJournal> journal;
  std::optional<Electorate> electorate;
  std::optional<Candidate> candidate;  // while it stands for election
  bool complete = false;               // it has been in the set
  Time heard{0};                       // an answer of the coordinator
  bool copying = false;
};

// Contents of a coordinator's directory, which survive its processes.
struct CoordinatorHost {
  std::vector<uint64_t> journal;  // numbers of records
  uint64_t term = 0;              // the highest that its directory knows
  bool copy = false;              // copy of another coordinator's
  std::map<uint64_t, Manifest> manifests;
};

// A direction of a connection. Messages arrive in order.
struct Direction {
  static constexpr uint32_t kNone = UINT32_MAX;
  Time last{0};             // arrival of the last message's first byte
  uint32_t queued = kNone;  // the last message, if they wait for their turns on the link
};

// A worker's connection to a server.
struct Connection {
  NodeId server;
  uint32_t number = 0;      // incremented when it closes: messages in transit are then void
  uint32_t address_id = 0;  // the server's
  Direction there, back;
};

// An address, and the slot of the process there, which another process may take over.
struct AddressSlot {
  static constexpr uint32_t kNobody = UINT32_MAX;
  std::string address;
  uint32_t slot = kNobody;
};

// A host's link and cores, in one cache line.
struct alignas(64) HostState {
  static constexpr uint32_t kEnoughCores = UINT32_MAX;
  LinkQueue down, up;
  Duration latency{0};
  uint32_t zone = 0;
  uint32_t cores = kEnoughCores;  // index in State::shared_cores
};

// Queue of a worker's input thread.
struct InputQueue {
  struct Split {
    uint64_t lease = 0;
    uint64_t events = 0;
  };
  std::deque<Split> waiting;  // the first one is being read or decoded
  bool reading = false;
  uint64_t unrequested = 0, missing = 0;  // bytes of the split being read
};

struct FollowerProcess : Process, FollowerParts {};

// A server or a worker. The fields that every message needs come first, in two cache lines, because there may
// be thousands of processes.
struct alignas(64) RoleProcess : Process {
  bool joined = false;
  bool heartbeat_in_flight = false;
  bool standby = false;
  Role role = Role::kWorker;
  uint32_t incarnation = 0;  // incarnation of the machine: incremented when the process joins again
  HostState* host = nullptr;
  // ---- a worker
  std::optional<Worker> worker;
  Time waiting_since{-1};
  std::unique_ptr<WorkerMemory> memory;
  std::unique_ptr<GroupMemberParts> group_member;  // all-reduce
  // ---- a server
  std::unique_ptr<Server> server;

  MessageCost cost;  // on its host
  Duration owed{0};  // a worker: time for messages, which delays its next batch
  uint64_t bytes_in = 0, bytes_out = 0;
  Time busy_until{0};       // with received messages
  Time isolated_until{0};   // from all others
  uint32_t slot = 0;        // permanent index in State::roles
  uint32_t started = 0;     // the number of processes of its role started before it
  uint32_t host_index = 0;  // in ClusterOptions::hosts, if there are any
  double speed = 1;         // speed of its host
  uint32_t address_id = 0;  // where others connect to it; 0: a worker without a listener
  NodeId node;
  Promises promises;
  Time last_heartbeat{0};
  Time wake_at = Time::max();
  std::deque<std::pair<uint64_t, Time>> parked;          // a server's tickets, and since when they are parked
  uint32_t move_target = 0;                              // address of the server that its last move goes to
  std::vector<std::unique_ptr<Connection>> connections;  // ordered by server; their addresses are stable
  InputQueue input;
  WorkerProgress progress;
};

// A push in transit, or its reply, in the same memory: three cache lines, because there are tens of thousands
// of messages. Many events need only the first line.
struct alignas(64) Message {
  uint32_t from = 0;  // slot of the worker
  uint32_t to = 0;    // slot of the server, known on arrival
  uint32_t from_incarnation = 0, to_incarnation = 0;
  Connection* way = nullptr;  // the worker's, valid within its incarnation
  uint32_t connection = 0;
  uint32_t serial = 0;  // number of this use of the memory
  uint64_t bytes = 0;
  Time last_byte{0};        // at the receiver's link, if that were free
  uint32_t address_id = 0;  // id of the addressed server; another process may be there by now
  bool back = false;
  bool wanted = true;  // the reply is still expected
  bool failed = false;
  Route route = Route::kLink;
  std::shared_ptr<const PushRequest> request;
  PushReply reply;
  std::shared_ptr<const std::vector<float>> gradient;
  std::shared_ptr<std::vector<float>> values;  // values of `reply`, one slice after the other
  uint64_t unsent = 0;                         // bytes; on arrival, those that arrive last
  uint32_t next = Direction::kNone;            // the message behind it in the queue
  static constexpr uint32_t kWhole = UINT32_MAX;
  uint32_t window = kWhole;  // bytes at a time
};

// The runs applied to one slice in one incarnation, by its server's replies.
struct Applied {
  std::vector<PartitionLedger> loaded;  // from the checkpoint that this incarnation was restored from
  std::set<std::tuple<uint32_t, Position, uint32_t>> runs;  // partition, begin of the cut, run
};

// Forwarded pushes from one server to another.
struct ForwardLink {
  uint64_t link = 0, acknowledged = 0;
  Time there{0}, back{0};  // messages arrive in order
  bool broken = false;
};

// A run that a worker was told to be on a slice.
struct ToldRun {
  Cut cut;
  uint32_t run = 0;
};

struct Cluster::State {
  using ProcessPtr = std::shared_ptr<RoleProcess>;
  using FollowerPtr = std::shared_ptr<FollowerProcess>;
  using CoordinatorPtr = std::shared_ptr<CoordinatorProcess>;
  using StandbyPtr = std::shared_ptr<StandbyProcess>;
  using PullAnswer = std::function<void(PushReply reply, std::vector<float> values)>;
  // The progress of the job.
  struct Reached {
    uint64_t events = 0, step = 0, checkpoint = 0, resumes = 0;
    std::vector<Position> watermark;
    friend bool operator==(const Reached&, const Reached&) = default;
  };
  struct Computation {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
    uint64_t token = 0;
    BatchOutcome outcome;
  };
  struct Sending {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
    uint64_t group = 0;
    uint64_t bucket = 0;
    Hop hop;
  };
  // Elements [begin, end) of the whole table.
  struct ElementRange {
    uint64_t begin = 0, end = 0;
    uint64_t elements() const { return end - begin; }
    uint64_t bytes() const { return elements() * sizeof(float); }
  };

  struct Decoding {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
  };
  struct Chunk {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
    uint64_t bytes = 0;
    Time last_byte{0};
  };
  // A message on its way to the receiver's link, or to that of its sender's zone.
  struct Departure {
    Time left{0};  // its last byte, from the sender
    Time first{0}, last{0};
    Route route = Route::kLink;
  };

  State(Cluster& self, ClusterOptions options, Workload& workload, Hooks hooks);

  // ---- time and randomness
  Time now() const { return queue.now(); }
  bool Faulty() const { return now() < options.faults.until; }
  bool LateLabels() const { return options.stream.late_labels > Duration(0); }
  bool Chance(double p) { return p > 0 && Faulty() && rng.Chance(p); }
  Duration Between(double least_ms, double most_ms) {
    return FromSeconds((least_ms + (most_ms - least_ms) * rng.Uniform()) * 1e-3);
  }
  // Random latency; `share` scales the probability that it takes up to seconds.
  Duration Latency(Duration least, double share = 1);
  Duration DiskTakes() { return FromSeconds(Seconds(options.faults.slow_disk) * rng.Uniform()); }
  Duration DiskTransfer(uint64_t bytes) const {
    const double rate = options.disk_bytes_per_s;
    return rate > 0 ? FromSeconds(static_cast<double>(bytes) / rate) : Duration(0);
  }
  // Runs `what` in the process when it is not paused; never if it is dead.
  void ScheduleIn(const std::shared_ptr<Process>& process, Duration delay, std::function<void()> what);

  // ---- invariants.cc
  // Ends the run; only the first violation counts.
  void Violate(Invariant invariant, std::string what);
  void CheckApplied(const PushRequest& request, const std::vector<SliceReply>& replies);
  // The versions of a server's slices before a push and after it.
  std::vector<SliceRef> VersionsOf(const RoleProcess& p) const;
  void CheckWriter(const RoleProcess& p, const std::vector<SliceRef>& before);
  // Checks that runs reported to workers are on the server's slices, and on those of any server in its place.
  void CheckTold(const RoleProcess& p, const PushRequest& request, const PushReply& reply);
  std::vector<bool> ReplicasOf(const RoleProcess& p) const;  // by slice
  // `replicas`: before the reply by which it may have become the server of slices.
  void CheckTakenOver(const RoleProcess& p, const std::vector<SliceRef>& before,
                      const std::vector<bool>& replicas);
  void CheckWatermark();
  void CheckLabels(const ControlReply& reply);
  void NoteLeases(const CoordinatorProcess& c, const ControlReply& reply);
  void CheckLease(const RoleProcess& p, const Lease& lease);
  void CheckTerm(uint64_t before, uint64_t now);
  void CheckCheckpoint(const Manifest& manifest);
  void CheckGroup(const RoleProcess& p, const Piece& piece);
  void CheckMembers(const RoleProcess& p);
  void CheckProgress();
  std::string Standing() const;

  // ---- cluster.cc
  ClusterResult Run();
  void Handle(const EventQueue::Event& event);
  void Watch();
  // `take_over`: the members may be alive.
  void StartCoordinator(uint32_t address, bool take_over);
  // The coordinator dies. Another one starts after a while, unless the job was resumed meanwhile.
  void KillCoordinator(Duration absent, uint32_t next_address);
  void KillCoordinator() { KillCoordinator(Between(10, 500), rng.Chance(0.5) ? 0 : 1); }
  void OnReplaced(const CoordinatorPtr& c);
  CoordinatorConfig Config() const;
  void Do(const CoordinatorPtr& c, CoordinatorActions actions);
  void Act(const CoordinatorPtr& c, CoordinatorAction& action);
  void NoteRecord(const JournalRecord& record);  // it is acted on
  void Tick(const CoordinatorPtr& c);
  void Poll(const CoordinatorPtr& c);
  void Alarm();
  std::vector<StreamRange> Ranges(CoordinatorProcess* c);
  void JobEnds(const Status& status);
  void ResumeJob();
  bool Complete() const;

  // ---- standbys.cc: coordinators with directories of their own
  bool OwnDirectories() const { return options.coordinator_standbys > 0; }
  void StartHosts();
  // The process at this address starts: what it is depends on its directory.
  void StartAt(uint32_t address);
  void StartStandby(uint32_t address);
  // `electors`: of a coordinator that was elected, those that it knows to be agreed.
  void StartElected(uint32_t address, uint64_t term, const std::vector<NodeId>& electors);
  void DoAgreed(const CoordinatorPtr& c, CoordinatorActions actions);
  void Flush(const CoordinatorPtr& c);
  void Observe(const CoordinatorProcess& c, uint64_t record);
  void AppendOwn(const CoordinatorPtr& c, JournalRecord record);
  void OnFollow(const CoordinatorPtr& c, uint64_t call, const FollowRequest& request);
  void NoteElector(const CoordinatorPtr& c, uint64_t call, ControlRequest* request);
  void Stamp(CoordinatorProcess* c, uint64_t call, ControlReply* reply);
  CheckpointOrder PrepareCheckpointOf(const CoordinatorProcess& c, uint64_t id);
  bool CommitCheckpointOf(const CoordinatorProcess& c, const Manifest& manifest);
  void Follow(const StandbyPtr& s);
  void OnFollowReply(const StandbyPtr& s, const FollowReply& reply);
  void CopyCheckpoint(const StandbyPtr& s, const FollowReply& reply);
  void OnMissed(const StandbyPtr& s);
  void WatchElection(const StandbyPtr& s);
  ControlReply AnswerAsStandby(const StandbyPtr& s, const ControlRequest& request);
  std::shared_ptr<Process> ProcessAt(uint32_t address) const;
  void KillAt(uint32_t address, Duration absent);
  bool ElectorsAreWhole() const;
  void InjectStandbyFault();
  Role ElectorRole() const { return protocol::ElectorRole(options.strategy); }

  // ---- prefetch.cc
  // Fetches what an event will access into the cache, one step of indirection per hop of
  // EventQueue::LookAhead. No other effect.
  void PrefetchEvent(const EventQueue::Event& event, int hop);
  void PrefetchForPush(const Message& message, int hop);
  void PrefetchForReply(const Message& message, int hop);
  void PrefetchForComputed(const Computation& computation, int hop);

  // ---- roles.cc
  // `host`: index in options.hosts; kAnyHost: the next one of the role.
  static constexpr uint32_t kAnyHost = UINT32_MAX;
  void Start(Role role, std::string address = "", bool standby = false, uint32_t host = kAnyHost);
  void StartAll();
  void Join(const ProcessPtr& p);
  void AskToJoin(const ProcessPtr& p, const std::function<void()>& again);
  void JoinAgain(const ProcessPtr& p);
  void SendHeartbeat(const ProcessPtr& p);
  void OnHeartbeatReply(const ProcessPtr& p, const std::optional<ControlReply>& reply);
  uint64_t TermOf(const RoleProcess& p) const;  // term of the coordinator that it follows
  // Sends a heartbeat if one is due, or sets the timer for it.
  void MaybeSendHeartbeat(const ProcessPtr& p);
  void Wake(const ProcessPtr& p);
  void WakeAt(const ProcessPtr& p, Time at);
  void OnExit(const ProcessPtr& p);
  bool Urgent(const RoleProcess& p) const;  // its next heartbeat
  // Executes a machine's actions, as long as the process is in this incarnation.
  template <class Actions>
  void DoAll(const ProcessPtr& p, const Actions& actions) {
    const uint32_t incarnation = p->incarnation;
    for (const auto& action : actions) {
      if (!p->alive || p->incarnation != incarnation) return;
      std::visit([&](const auto& a) { Act(p, a); }, action);
    }
  }
  // Does the actions of a worker or a member of a group.
  template <class Actions>
  void Do(const ProcessPtr& p, const Actions& actions) {
    DoAll(p, actions);
    if (p->alive && p->joined && !p->heartbeat_in_flight && Urgent(*p)) MaybeSendHeartbeat(p);
  }
  void Act(const ProcessPtr& p, const LoadSlices& a);
  void Act(const ProcessPtr& p, const SaveShard& a);
  void Act(const ProcessPtr& p, const StopRole& a);
  void Act(const ProcessPtr& p, const PrepareSplit& a);
  void Act(const ProcessPtr& p, const DropSplit& a);
  void Act(const ProcessPtr& p, const Compute& a);
  void Act(const ProcessPtr& p, const SendPush& a);
  void Act(const ProcessPtr& p, const Disconnect& a);
  BatchOutcome Train(const ProcessPtr& p, const Lease& lease, uint32_t batch, bool first);
  Duration DrawCompute(RoleProcess* p);
  void ComputedAfter(const ProcessPtr& p, Duration takes, uint64_t token, const BatchOutcome& outcome);
  void OnComputed(uint32_t index);

  // ---- moves.cc
  void DoMoves(const ProcessPtr& p);
  void Act(const ProcessPtr& p, const ConnectMove& a);
  void Act(const ProcessPtr& p, const SendMove& a);
  void Act(const ProcessPtr& p, const DropMove& a);
  void Act(const ProcessPtr& p, const AnswerMove& a);
  // An input of the server's machine, about moves or replicas.
  void Later(const ProcessPtr& p, Duration delay, std::function<void(Server&)> input);
  void ArriveMove(uint32_t address_id, const ProcessPtr& from, uint64_t id,
                  const std::vector<MovedSlice>& slices);
  // A process that takes part may die here.
  void AtMovePoint(MovePoint point, const ProcessPtr& from, uint32_t to_address);
  void Die(MovePart who, const ProcessPtr& from, uint32_t to_address);

  // ---- replicas.cc
  void DoForwards(const ProcessPtr& p);
  void Act(const ProcessPtr& p, const Forward& a);
  void Act(const ProcessPtr& p, const DropLink& a);
  void ArriveForward(const ProcessPtr& from, const ProcessPtr& to, const Forward& a,
                     const std::vector<std::vector<float>>& gradients);
  void FailForward(const ProcessPtr& p, Duration delay, NodeId to, uint64_t link);
  // The server of the slices, or that of their replicas, may die here. True if it is the one that acts: it
  // does nothing more.
  bool DiesAt(ForwardPoint point, const ProcessPtr& primary, const ProcessPtr& replica);
  bool Sound(const ProcessPtr& p, uint32_t incarnation) const {
    return p->alive && p->incarnation == incarnation && p->server;
  }

  // ---- followers.cc
  void StartFollower();
  void JoinFollower(const FollowerPtr& f);
  void AskToJoin(const FollowerPtr& f);
  void SendHeartbeat(const FollowerPtr& f);
  void Wake(const FollowerPtr& f);
  void WakeAt(const FollowerPtr& f, Time at);
  void Do(const FollowerPtr& f, const FollowerActions& actions);
  void Act(const FollowerPtr& f, const StopRole& a);
  void Act(const FollowerPtr& f, const Disconnect& a);
  void Act(const FollowerPtr& f, const SendPush& a);
  void Act(const FollowerPtr& f, const BeginRound& a);
  void Act(const FollowerPtr& f, const CompleteRound& a);
  void CheckFollowed(const FollowerPtr& f);
  void TakeValues(const FollowerPtr& f, const PushReply& reply, const std::vector<float>& values);
  void Pulled(const ProcessPtr& p, const FollowerPtr& f, const PushRequest& request,
              const PullAnswer& answer);
  // False if the ticket is not that of a pull.
  bool AnswerPulled(const ProcessPtr& p, Server::Ready* ready);
  std::vector<float> ValuesOf(const RoleProcess& p, const PushReply& reply);
  void ForgetPulls(const ProcessPtr& server);
  void TroubleFollowers();

  // ---- group_members.cc
  void StartGroupMember(const ProcessPtr& p);
  void ForgetGroups(const ProcessPtr& p);
  void Later(const ProcessPtr& p, Duration delay, std::function<GroupMemberActions(GroupMember&)> input);
  void ReadAgain(const ProcessPtr& p, uint64_t lease);
  void Act(const ProcessPtr& p, const LeaveGroup& a);
  void Act(const ProcessPtr& p, const JoinGroup& a);
  void Act(const ProcessPtr& p, const BroadcastState& a);
  void Act(const ProcessPtr& p, const ComputeLane& a);
  void Act(const ProcessPtr& p, const ReduceStep& a);
  void AddLane(RoleProcess* p, uint32_t lane, uint64_t events);
  bool OneShot(const RoleProcess& p) const;
  void StartBuckets(const ProcessPtr& p, size_t until);
  GradientTerms TermsOf(RoleProcess* p, std::vector<std::vector<float>>* memory) const;
  void Shared(const ProcessPtr& p);
  void Reduced(const ProcessPtr& p);
  void FailUnderWay(const ProcessPtr& p);

  // ---- reduce.cc
  uint32_t NewPiece(const ProcessPtr& from, Piece::Kind kind, const Membership::Peer& to);
  void FreePiece(uint32_t m);
  Time SendPiece(const ProcessPtr& from, uint32_t m, Time* in_order, double share_of_slow);
  void OnPieceArrives(uint32_t m);
  void OnPieceDelivered(uint32_t m);
  void OnPieceSent(uint32_t index);
  void DropPiece(uint32_t m);
  void Connect(const ProcessPtr& p);
  void Dial(const ProcessPtr& p, uint32_t rank);
  void Redial(const ProcessPtr& p, uint32_t rank);
  bool TakeCall(const ProcessPtr& p, uint32_t m);
  void TakeAnswer(const ProcessPtr& p, const Piece& piece);
  void Connected(const ProcessPtr& p);
  void NotifyLost(uint32_t slot, uint64_t connection, Duration latency, const char* why);
  void NotifyPeers(const ProcessPtr& p);
  void Break(const ProcessPtr& p, Status why);
  void LeavePeers(const ProcessPtr& p);
  void Within(const ProcessPtr& p);
  void StartBucket(const ProcessPtr& p, BucketRun::Kind kind, uint64_t begin, uint64_t end, uint64_t bytes);
  bool TakePiece(const ProcessPtr& p, uint32_t m);
  bool Accept(const ProcessPtr& p, BucketRun* run, uint32_t m);
  void Proceed(const ProcessPtr& p, uint64_t bucket);
  void KeepContributions(RoleProcess* p, BucketRun* run);
  void Combine(RoleProcess* p, BucketRun* run, const ReduceAction& action);
  void SendHop(const ProcessPtr& p, uint64_t bucket, BucketRun* run, const Hop& hop);
  // True if the bucket has real data rather than a modelled size.
  bool Carries(const BucketRun& run) const { return !modelled && run.kind == BucketRun::Kind::kSums; }

  // ---- network.cc
  // Calls `answer` exactly once: with the reply, or with none if it was lost, late, or there was no
  // coordinator.
  void Call(const std::shared_ptr<Process>& from, ControlRequest request,
            std::function<void(std::optional<ControlReply>)> answer);
  void FreeMessage(uint32_t m);
  uint32_t AddressIdOf(const std::string& address);
  // Sends over the host's link, not before `at`, behind what waits in this direction of the connection.
  // `to`: null if there is no receiver. `direction`: null: the message may overtake others.
  void Send(RoleProcess* from, const RoleProcess* to, uint32_t m, Time at, Direction* direction);
  // How many bytes of a message are sent at a time.
  uint32_t DrawWindow(uint64_t bytes);
  // Sends a window of the first message of a queue, and returns true if it was the last one.
  bool SendWindow(RoleProcess* from, const RoleProcess* to, uint32_t m, Time at, Direction* direction);
  void OnMoreToSend(uint32_t m);
  // Calls `end` for each message of a queue.
  void LeaveQueue(uint32_t m, void (State::*end)(uint32_t));
  // The process at the address that the message is for, or the one that replies; null if there is none.
  RoleProcess* ServerOf(const Message& message) const;
  void Fail(const ProcessPtr& worker, NodeId server, uint64_t sequence);
  void OnArrive(uint32_t m);
  void OnDeliver(uint32_t m);
  void Serve(const ProcessPtr& p, uint32_t m, Time there);
  // There is no receiver: reports a lost connection to the sender, if it waits.
  void Bounce(uint32_t m);
  void TakeReady(const ProcessPtr& p);
  void SendReply(const ProcessPtr& p, uint32_t m, PushReply reply);
  void TakeReply(uint32_t m);
  void ForgetParked(const ProcessPtr& server, uint32_t worker);
  void ExpireParked(const ProcessPtr& server);
  Connection& ConnectionOf(RoleProcess* worker, NodeId server);
  uint64_t BytesOf(const PushRequest& request) const;
  uint64_t BytesOf(const PushReply& reply) const;

  // ---- hosts.cc
  void MakeHosts();
  topology::HostPlace PlaceOf(const RoleProcess& p) const;
  void PutOnHost(RoleProcess* p, uint32_t host);
  Departure Leaves(RoleProcess* from, const RoleProcess* to, uint64_t bytes, Time at, Time* in_order,
                   double share);
  // When the receiver has all of a message whose first byte is at its link.
  Time Comes(RoleProcess* to, uint64_t bytes, Time last_byte, Route route);
  // A message is at the link of a zone. Sets how far it is, and returns when it comes to the next one.
  Time Crosses(const RoleProcess* from, const RoleProcess* to, uint64_t bytes, Time* last_byte, Route* route);
  // Crosses both zones at once, for messages that are no events of their own.
  void CrossBoth(const RoleProcess& from, const RoleProcess& to, uint64_t bytes, Departure* departure);
  // A window of a message, but the last one, is at the next link of its route.
  void PassWindow(const HostState& from, HostState* to, uint64_t window, Route route);
  void OnCrosses(uint32_t m);
  void OnPieceCrosses(uint32_t m);
  SharedCores* CoresOf(const RoleProcess& p);
  void BeginTask(const RoleProcess& p, uint32_t task, Duration work, uint32_t threads);
  void OnCores(uint32_t cores);
  // The time that a server needs for a message, on its cores.
  Duration Busy(RoleProcess* p, uint64_t bytes);

  // ---- input.cc
  bool HasInput() const { return options.input.event_bytes > 0 || options.input.decode > 0; }
  void ReadNext(const ProcessPtr& p);
  void RequestChunk(RoleProcess* p);
  void OnChunkArrives(uint32_t index);
  void OnChunkDelivered(uint32_t index);
  void DecodeSplit(const ProcessPtr& p);
  void OnDecoded(uint32_t index);
  void SplitReady(const ProcessPtr& p, uint64_t lease);

  // ---- faults.cc
  void InjectFault();
  void InjectDeath();
  // Tells the hook. `p`: none for the coordinator.
  void Note(const std::string& what, const RoleProcess* p = nullptr) const;
  Duration DrawPause();
  // True if it dies here.
  bool DiesAt(DeathPoint point, const ProcessPtr& p);
  bool CoordinatorDiesAt(DeathPoint point, const CoordinatorPtr& c);
  void TroubleCoordinator();
  std::shared_ptr<Process> Admin() const;
  void Tell(const AdminRequest& command) {
    Call(Admin(), command, [](const auto&) {});
  }
  void Carry(const PlannedFault& planned);
  void CarryToCoordinator(const PlannedFault& planned);
  void Kill(const ProcessPtr& p, bool replace);
  bool StandsBy(const RoleProcess& p) const;
  void Leave(const ProcessPtr& p);
  void Drain(const RoleProcess& p);
  void Replace();
  void StartOne(Role role, bool standby);
  void Pause(Process* process, Duration lasts);
  void PauseRole(RoleProcess& p, Duration lasts);
  void PauseCoordinator(Duration lasts);
  void CutOff(RoleProcess* p, Duration lasts);
  // The network between the two loses everything, in both directions.
  void CutPair(const RoleProcess& worker, const RoleProcess& server, Duration lasts);
  bool IsCut(NodeId worker, NodeId server) const;
  void Isolate(const ProcessPtr& p, Duration lasts);
  // Whether messages between the two are lost, because one of them is isolated. Either may be null.
  bool Isolated(const RoleProcess* a, const RoleProcess* b) const {
    return result.isolations > 0 && (IsIsolated(a) || IsIsolated(b));
  }
  bool IsIsolated(const RoleProcess* p) const { return p != nullptr && now() < p->isolated_until; }
  ProcessPtr Any(Role role);
  std::vector<ProcessPtr> All(Role role) const;

  // ---- commands.cc
  // Repeats it until it is answered.
  void Command(AdminRequest::Kind kind, std::function<void()> then);
  void PauseJob(Duration lasts);
  void NotePause(const ScaleSet& set);        // it is in the journal
  void NoteAgreedPause(const ScaleSet& set);  // the same, by coordinators with own directories
  void NoteTakenOver(const RecoveredState& restored);
  void CheckPause(const CoordinatorProcess& c, const WorkerHeartbeatReply& reply);

  Cluster& self;
  ClusterOptions options;
  Workload& workload;
  Hooks hooks;
  Rng rng;
  EventQueue queue;
  Disk disk;
  LabelCheck label_check;
  std::vector<ElementRange> slice_ranges;  // by slice
  uint64_t elements = 0;
  uint64_t moment_words = 0;  // words of the variable of moments, if the table has one
  bool modelled = false;
  CoordinatorPtr coordinator;  // the newest
  // By address. A member that gets no answer at one calls the next.
  std::array<CoordinatorPtr, kAddresses> coordinators;
  std::array<StandbyPtr, kAddresses> standbys;
  std::array<CoordinatorHost, kAddresses> hosts;
  std::vector<JournalRecord> records;  // records of all journals with directories of their own, by number
  std::set<uint64_t> acted_on;         // numbers of records
  uint64_t acted_term = 0;             // the highest whose coordinator has acted on a record
  std::unordered_map<uint64_t, uint64_t> leased_by;              // by lease: the coordinator's term
  std::map<std::pair<uint32_t, Position>, uint64_t> taken_from;  // by cut: the highest term of a lease
  std::vector<FollowerPtr> followers;
  struct Pull {
    ProcessPtr server;
    FollowerPtr from;
    PullAnswer answer;
  };
  std::map<uint64_t, Pull> pulls;  // pulls that servers have parked, by ticket
  uint64_t last_pull = 0;
  // Values that were sent to followers.
  std::map<std::tuple<SliceId, Incarnation, uint64_t>, std::vector<float>> sent_values;
  std::vector<ProcessPtr> roles;                                         // dead ones are null
  std::vector<AddressSlot> address_slots = std::vector<AddressSlot>(1);  // the first is unused
  std::unordered_map<std::string, uint32_t> address_ids;                 // by address
  Slab<Message> messages;
  std::deque<HostState> hosts_of_roles;
  std::vector<SharedCores> shared_cores;
  struct ZoneLink {
    LinkQueue out, in;
  };
  std::vector<ZoneLink> zone_links;
  LinkQueue source_link;
  Slab<Computation> computations;
  Slab<Decoding> decodings;
  Slab<Chunk> chunks;
  std::vector<ElementRange> buckets;           // ranges of a step's gradients, in the order of reduction
  std::map<uint64_t, Blackboard> blackboards;  // by group
  Slab<Piece> pieces;
  Slab<Sending> sendings;
  uint64_t last_call = 0;
  uint64_t last_connection = 0;
  uint64_t last_address = 0;
  uint32_t started_servers = 0, started_workers = 0;
  std::map<NodeId, ServerProgress> servers;  // last known progress of every server that ever existed
  std::map<std::pair<SliceId, Incarnation>, Applied> applied_on;
  std::map<std::pair<SliceId, Incarnation>, uint64_t> versions;  // reached by an update, on any server
  std::map<std::pair<SliceId, Incarnation>, std::vector<ToldRun>> told;
  std::map<std::pair<uint32_t, NodeId>, ForwardLink> forward_links;  // by slot and the other server
  // By server's slot and move: who has sent the slices.
  std::map<std::pair<uint32_t, uint64_t>, ProcessPtr> move_senders;
  std::map<std::pair<NodeId, NodeId>, Time> cut_until;  // by worker and server
  uint64_t leased_until = 0;            // stepped: some of each step before this one has been leased
  std::optional<uint64_t> paused_from;  // `leased_until`, when the job was paused
  std::optional<Reached> last_reached;
  bool done = false;
  ClusterResult result;
};

}  // namespace leat::sim

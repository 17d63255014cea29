// Messages between roles and the coordinator, as plain structs. net/rpc sends their bytes; the simulator
// passes them directly.
//
// Receivers treat them as untrusted: all fields are checked on arrival by the rules of their lists.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fields/fields.h"
#include "base/ids.h"
#include "base/shared.h"
#include "base/status.h"
#include "protocol/cut.h"
#include "protocol/messages_parts.h"
#include "protocol/slices.h"
#include "protocol/topology/host_place.h"

namespace leat::protocol {

struct JoinRequest {
  Role role = Role::kWorker;
  std::string version;  // version of the program and its protocols
  std::string address;  // data-plane address
  std::string host;
  int64_t pid = 0;
  uint64_t job_hash = 0;  // hash of the job that the process was built for; 0: none yet
  std::optional<MpiRank> mpi;
  // A random number of this process, which identifies the role: several processes may have one address by
  // mistake, and a process that joins again may have another address. 0: unknown.
  uint64_t process = 0;
  uint64_t network = 0;            // id of the host's network namespace, in which loopback works; 0: unknown
  std::string local_host;          // this host's address on the way to the coordinator; empty: unknown
  bool standby = false;            // a worker that takes the place of another one
  topology::HostPlace place = {};  // as the process was told; the job's zone map may fill in the rest
  // Earlier attempts to join: the least round trip to the coordinator (RoundTrips), and their number.
  Duration round_trip{};
  uint32_t attempts = 0;
};
LEAT_FIELDS(JoinRequest, (role), (version, Limits::kName), (address, Limits::kName), (host, Limits::kName),
            (pid), (job_hash, Fixed), (mpi), (process, Fixed), (network, Fixed), (local_host, Limits::kName),
            (standby), (place), (round_trip), (attempts));

struct JoinReply {
  Status status;
  uint64_t term = 0;  // the coordinator's term
  NodeId node;
  uint32_t index = 0;
  std::string job;                // the whole job as resolved YAML, from which every role builds its parts
  Duration heartbeat_interval{};  // at most, between two heartbeats
  Duration heartbeat_timeout{};   // a node silent for longer is evicted
  // Checkpoints. A role that reads `probe_content` in the file `probe` sees the job's directory; others
  // transfer shards through the service at `transfers`, ":port" if it has the coordinator's host. Filled in
  // by the coordinator's shell.
  std::string probe;
  std::string probe_content;
  std::string transfers;
};
LEAT_FIELDS(JoinReply, (status), (term), (node), (index), (job, Limits::kDocument), (heartbeat_interval),
            (heartbeat_timeout), (probe, Limits::kPath), (probe_content, Limits::kName),
            (transfers, Limits::kName));

// The interval of a role that works, or waits for something.
inline Duration BusyInterval(Duration heartbeat_interval) {
  constexpr Duration kLeast = std::chrono::milliseconds(100);
  return std::min(heartbeat_interval, std::max(kLeast, heartbeat_interval / 5));
}

// Terms. Each coordinator of a job has a higher term than the one before it, and members follow the highest
// that they know. Heartbeats and their replies carry it. A new coordinator answers a heartbeat of an earlier
// term with its own term and nothing else, unless the member is evicted or has to stop; the member's next
// heartbeats then say all that it holds. Members ignore replies of an earlier term than their own.

// Coordinators with directories of their own (protocol/succession/). Each is known by a random number of its
// directory.

// The coordinators that may take the job over: the directory of each has every record that was acted on.
struct CoordinatorSet {
  uint64_t term = 0;                   // term of the coordinator that names it; 0: none is known
  uint64_t epoch = 0;                  // grows within the term
  std::vector<uint64_t> coordinators;  // ascending
  bool Contains(uint64_t coordinator) const;
  bool NewerThan(const CoordinatorSet& other) const;
};
LEAT_FIELDS(CoordinatorSet, (term), (epoch), (coordinators, Limits::kCoordinators, Ascending, Each(Fixed)));

// A member's promise to coordinators, part of its heartbeats.
struct ElectorState {
  uint64_t promised = 0;  // it follows no coordinator of a lower term
  uint64_t set_term = 0;  // term of the newest CoordinatorSet that it knows
  uint64_t set_epoch = 0;
};
LEAT_FIELDS(ElectorState, (promised), (set_term), (set_epoch));

// A standby's answer to a member that calls it because its coordinator does not answer. The member answers
// with a Promise.
struct Candidacy {
  uint64_t term = 0;       // higher than all that the standby has heard of
  uint64_t candidate = 0;  // number of its directory
  // The newest set that members have told it of. A member that knows only an older set, which never became
  // that of a majority, would otherwise promise nothing to a later coordinator's standbys.
  CoordinatorSet coordinators = {};
};
LEAT_FIELDS(Candidacy, (term), (candidate, Fixed), (coordinators));

struct WorkerHeartbeat {
  static constexpr Permission kPermission{"worker", "worker's heartbeat"};
  NodeId node;
  std::string metrics;  // HOST:PORT of the role's listener for observers; empty: it has none
  uint64_t term = 0;
  Generation generation;  // generation of its view
  // The number of splits that it can take. Stepped strategies: the number of additional rounds that it can
  // take; it also gets free lanes of the rounds it works on and of earlier ones, because it waits for these.
  // In all stepped strategies only whether it is positive matters, or whether leases are held: the worker
  // then gets all its lanes of the open rounds.
  uint32_t leases_wanted = 0;
  std::vector<uint64_t> held;      // leases it works on; others are no longer its own
  std::vector<uint64_t> released;  // leases ended since the last answered heartbeat, finished or given up
  std::vector<LeaseClaim> claims;  // all of `held`, until the first answer of a new coordinator
  bool leaving = false;            // it has stopped: its other leases are others' at once
  bool waiting = false;            // for servers, or for work
  // Servers that it has requests for and cannot reach. All-reduce: the peer because of which its group
  // failed.
  std::vector<NodeId> unreachable;
  // Predictions.
  bool can_rescore = false;         // it has values to score with, and time
  std::vector<uint64_t> rescoring;  // leases of WorkerHeartbeatReply::rescores that it has not finished
  std::vector<UnsentScores> unsent;
  WorkerProgress progress;
  std::optional<MemberReport> member_report;  // all-reduce
  ElectorState elector;
  // An answer to `gradients_wanted`: an event of show/tensorboard/ with the distribution of each
  // variable's gradient. Opaque to the protocol; readers decode and check it. Usually empty.
  Bytes gradients = {};
};
LEAT_FIELDS(WorkerHeartbeat, (node), (metrics, Limits::kName), (term), (generation),
            (leases_wanted, Limits::kLeases), (held, Limits::kLeases), (released, Limits::kLeases),
            (claims, Limits::kLeases), (leaving), (waiting), (unreachable, Limits::kMembers), (can_rescore),
            (rescoring, Limits::kLeases), (unsent, Limits::kPartitions), (progress), (member_report),
            (elector), (gradients, Limits::kGradients));

struct WorkerHeartbeatReply {
  uint64_t term = 0;
  bool evicted = false;  // join again, as a new node
  bool stop = false;     // the job has ended: leave
  bool drain = false;    // leave as soon as possible
  Shared<View> view;     // if newer than the sender's
  std::vector<Lease> leases;
  std::vector<uint64_t> revoked;  // leases in `held` that the worker has to drop
  // Score the runs in `missing`, without training: their scores are lost.
  std::vector<Lease> rescores;
  // All-reduce.
  std::optional<Group> group;                 // the newest one with this worker
  std::vector<Round> rounds;                  // from MemberReport::rounds_until on, in order
  std::vector<Position> start;                // where each partition starts
  std::optional<CheckpointOrder> checkpoint;  // the newest one, until it is reported
  // With a new term: as in JoinReply, filled in by the coordinator's shell. Empty: unchanged.
  std::string transfers = {};
  std::string probe = {}, probe_content = {};
  // If newer than the sender's; filled in by the coordinator's shell.
  std::optional<CoordinatorSet> coordinators = {};
  bool waiting = false;                    // for its journal: only `term` and `coordinators` count
  std::optional<RecordOrder> record = {};  // repeated while it holds; filled in by the coordinator's shell
  // Asks for `gradients` in a later heartbeat; filled in by the coordinator's shell.
  bool gradients_wanted = false;
};
LEAT_FIELDS(WorkerHeartbeatReply, (term), (evicted), (stop), (drain), (view), (leases, Limits::kLeases),
            (revoked, Limits::kLeases), (rescores, Limits::kLeases), (group), (rounds, Limits::kRounds),
            (start, Limits::kPartitions), (checkpoint), (transfers, Limits::kName), (probe, Limits::kPath),
            (probe_content, Limits::kName), (coordinators), (waiting), (record), (gradients_wanted));

struct ServerHeartbeat {
  static constexpr Permission kPermission{"server", "server's heartbeat"};
  NodeId node;
  std::string metrics;  // as in WorkerHeartbeat
  uint64_t term = 0;
  Generation generation;
  std::vector<LedgerReport> ledgers;  // slices on this server
  // A report that is too large for one heartbeat is sent in parts, each with its own heartbeat: part 0, 1, …
  // of report number `report`, and whether there are `more`. It contains the state as of part 0.
  uint64_t report = 0;
  uint32_t part = 0;
  bool more = false;
  std::vector<SliceIncarnation> failed;  // orders that failed
  std::string failure;                   // the reason for the first of them
  std::optional<ShardReport> shard;      // repeated until a newer checkpoint is ordered
  bool leaving = false;                  // as soon as its slices have been handed over
  // The current number of consecutive non-finite runs (stepped: steps), and the last of them.
  uint32_t consecutive_rejected = 0;
  std::optional<RejectedRun> rejected;
  ServerProgress progress;
  std::vector<MoveReport> moves;
  std::vector<SliceTraffic> traffic;  // traffic of some slices, now and then
  // Ledgers of slices with a replica are reported by the replica's server: the primary has those runs, too.
  std::vector<LostReplica> lost_replicas;  // here, or of primaries here; repeated until the orders change
  uint64_t version = 0;                    // the highest of a primary here
  ElectorState elector;
};
LEAT_FIELDS(ServerHeartbeat, (node), (metrics, Limits::kName), (term), (generation),
            (ledgers, Limits::kSlices), (report), (part), (more), (failed, Limits::kSlices),
            (failure, Limits::kText), (shard), (leaving), (consecutive_rejected), (rejected), (progress),
            (moves, Limits::kMoves), (traffic, Limits::kSlices), (lost_replicas, Limits::kSlices), (version),
            (elector));

struct ServerHeartbeatReply {
  uint64_t term = 0;
  bool evicted = false;
  bool stop = false;
  bool drain = false;  // leave as soon as the slices have been handed over
  Shared<View> view;
  std::vector<Position> start;                // where each partition starts, for newly initialized slices
  std::vector<SliceOrder> orders;             // all slices of this server: others are dropped
  std::optional<CheckpointOrder> checkpoint;  // the newest one, until it is reported
  // The part of a report that the heartbeat carried. The server repeats a part until it is acknowledged here.
  uint64_t report = 0;
  uint32_t part = 0;
  std::string transfers = {};      // as in WorkerHeartbeatReply
  std::vector<MoveOrder> moves;    // from this server
  std::vector<uint64_t> incoming;  // moves to it; what has arrived by others, and is not ordered, is dropped
  // Ordered slices that have a replica. All others have none, so their pushes wait for no acknowledgement.
  std::vector<ReplicaGroup> replicated;
  std::vector<ReplicaGroup> replicas;               // all that this server has; others are dropped
  std::string probe = {}, probe_content = {};       // as in WorkerHeartbeatReply
  std::optional<CoordinatorSet> coordinators = {};  // as in WorkerHeartbeatReply
  bool waiting = false;                             // as in WorkerHeartbeatReply
  std::optional<RecordOrder> record = {};           // as in WorkerHeartbeatReply
};
LEAT_FIELDS(ServerHeartbeatReply, (term), (evicted), (stop), (drain), (view), (start, Limits::kPartitions),
            (orders, Limits::kSlices), (checkpoint), (report), (part), (transfers, Limits::kName),
            (moves, Limits::kMoves), (incoming, Limits::kMoves), (replicated, Limits::kSlices),
            (replicas, Limits::kSlices), (probe, Limits::kPath), (probe_content, Limits::kName),
            (coordinators), (waiting), (record));

struct BotsHeartbeat {
  static constexpr Permission kPermission{"bots", "bots' heartbeat"};
  NodeId node;
  uint64_t published = 0;
  bool done = false;
  double cpu_seconds = 0;
  uint64_t term = 0;
  std::string metrics = {};  // as in WorkerHeartbeat
};
LEAT_FIELDS(BotsHeartbeat, (node), (published), (done), (cpu_seconds, NotNegative), (term),
            (metrics, Limits::kName));
struct BotsHeartbeatReply {
  bool evicted = false;
  bool stop = false;
  uint64_t term = 0;
  std::vector<std::string> standbys = {};  // their addresses, as in a view
};
LEAT_FIELDS(BotsHeartbeatReply, (evicted), (stop), (term), (standbys, Limits::kMembers, Each(Limits::kName)));

// From a feed that is a process of its own.
struct FeedHeartbeat {
  static constexpr Permission kPermission{"feed", "feed's heartbeat"};
  NodeId node;
  uint64_t requests = 0;  // answered since the process started
  uint64_t bytes_sent = 0;
  bool leaving = false;
  double cpu_seconds = 0;
  std::vector<PublisherReport> publishers;
  uint64_t term = 0;
  std::string metrics = {};  // as in WorkerHeartbeat
};
LEAT_FIELDS(FeedHeartbeat, (node), (requests), (bytes_sent), (leaving), (cpu_seconds, NotNegative),
            (publishers, Limits::kPartitions), (term), (metrics, Limits::kName));
struct FeedHeartbeatReply {
  bool evicted = false;
  bool stop = false;
  bool drain = false;                   // as for a worker
  std::vector<PublisherOrder> publish;  // all that this feed is to publish
  uint64_t term = 0;
  std::vector<std::string> standbys = {};
};
LEAT_FIELDS(FeedHeartbeatReply, (evicted), (stop), (drain), (publish, Limits::kPartitions), (term),
            (standbys, Limits::kMembers, Each(Limits::kName)));

// From a member that follows the parameters (subscribers/subscriber.h).
struct ServeHeartbeat {
  static constexpr Permission kPermission{"serve", "heartbeat of a serve member"};
  NodeId node;
  uint64_t term = 0;
  Generation generation;  // generation of its view
  bool leaving = false;
  FollowProgress progress;
  std::string metrics = {};  // as in WorkerHeartbeat
};
LEAT_FIELDS(ServeHeartbeat, (node), (term), (generation), (leaving), (progress), (metrics, Limits::kName));
struct ServeHeartbeatReply {
  uint64_t term = 0;
  bool evicted = false;
  bool stop = false;
  bool drain = false;  // as for a worker
  Shared<View> view;   // if newer than the sender's
};
LEAT_FIELDS(ServeHeartbeatReply, (term), (evicted), (stop), (drain), (view));

// Any role, from a thread of its own: the process is alive, although its loop may be busy with a long batch.
struct KeepAlive {
  static constexpr Permission kPermission{"coordinator, worker, server, bots, feed, serve", "keep-alive"};
  NodeId node;
  uint64_t progress = 0;     // kernels that have finished since the process started
  std::string metrics = {};  // a standby's listener, as in WorkerHeartbeat
  Duration round_trip{};     // to the coordinator, the least of the last ones (RoundTrips); 0: unknown
};
LEAT_FIELDS(KeepAlive, (node), (progress), (metrics, Limits::kName), (round_trip));
struct KeepAliveReply {
  bool evicted = false;
  bool stop = false;
  std::vector<std::string> standbys = {};
  bool known = false;  // all servers and workers have the standby's address
};
LEAT_FIELDS(KeepAliveReply, (evicted), (stop), (standbys, Limits::kMembers, Each(Limits::kName)), (known));

// A member's answer to a Candidacy.
struct Promise {
  static constexpr Permission kPermission{"server, worker", "promise to a standby"};
  NodeId node;
  uint64_t term = 0;  // as in the Candidacy, as `candidate`
  uint64_t candidate = 0;
  bool granted = false;   // it follows no coordinator of a lower term, and promises the term to no other
  uint64_t promised = 0;  // the highest term that it has promised or follows
  CoordinatorSet coordinators = {};  // the newest that it knows
};
LEAT_FIELDS(Promise, (node), (term), (candidate, Fixed), (granted), (promised), (coordinators));
struct PromiseReply {
  uint64_t term = 0;  // the term that the standby stands for now
};
LEAT_FIELDS(PromiseReply, (term));

// From a standby with a directory of its own: what it has of the coordinator's journal and checkpoints. The
// journal comes as a stream of bytes: length:u32 checksum:u64 record for each record. The first `snapshot` of
// them are the journal as it was when the stream began. An empty record asks the standby to confirm that it
// still follows.
struct FollowRequest {
  static constexpr Permission kPermission{"coordinator", "request to follow the journal"};
  uint64_t coordinator = 0;  // number of its directory
  uint64_t term = 0;         // the term that it follows; 0: none yet
  uint64_t stream = 0;       // a stream of that term; 0: a new one is wanted
  uint64_t received = 0;     // bytes of the stream
  uint64_t synced = 0;       // bytes whose records are on its disk
  uint64_t checkpoint = 0;   // the newest complete one that it has; 0: none
};
LEAT_FIELDS(FollowRequest, (coordinator, Fixed), (term), (stream), (received), (synced), (checkpoint));
struct FollowReply {
  static constexpr size_t kMaxBytes = 1 << 20;
  uint64_t term = 0;
  uint64_t stream = 0;  // its number; another one than before begins anew
  uint64_t snapshot = 0;
  uint64_t offset = 0;  // position of `bytes` in the stream
  Bytes bytes = {};
  uint64_t agreed = 0;      // bytes of the stream whose records may have been acted on
  bool in_set = false;      // the standby is in the set of coordinators
  bool electable = false;   // and a majority of the members knows that
  uint64_t checkpoint = 0;  // the newest complete one; 0: none
  // Checkpoints before this one, and what only they need of the journal, may be removed.
  uint64_t oldest_kept = 0;
  std::vector<Position> watermark = {};
  std::string transfers = {};  // as JoinReply::transfers
};
LEAT_FIELDS(FollowReply, (term), (stream), (snapshot), (offset), (bytes, AtMost(FollowReply::kMaxBytes)),
            (agreed), (in_set), (electable), (checkpoint), (oldest_kept), (watermark, Limits::kPartitions),
            (transfers, Limits::kName));

// Another clock is `offset` ahead at `at` of one's own clock, to ± `error`.
struct ClockSample {
  Time at{0};
  Duration offset{0};  // negative: behind
  Duration error{0};
};
LEAT_FIELDS(ClockSample, (at, Limits::kTime), (offset, Limits::kDifference), (error));

// From a member that records: what its threads have done since the last chunk
// (base/recorder/recorder.h). Opaque to the protocol. Without spans it only asks for the time.
struct SpansRequest {
  static constexpr Permission kPermission{"server, worker", "spans of a recording"};
  NodeId node;
  uint64_t recording = 0;
  uint64_t chunk = 0;  // 0, 1, …: repeated until it is answered
  Bytes spans;
  // With the last chunk.
  bool last = false;
  std::vector<ClockSample> clock;  // samples of the coordinator's clock
  uint64_t dropped = 0;            // spans for which there was no room
};
LEAT_FIELDS(SpansRequest, (node), (recording), (chunk), (spans, Limits::kSpans), (last),
            (clock, Limits::kClockSamples), (dropped));
struct SpansReply {
  Status status;  // kNotFound: nobody wants the rest
  Time now{0};    // the coordinator's clock when it answered
};
LEAT_FIELDS(SpansReply, (status), (now, Limits::kTime));

// A process of the job in a recording.
struct TimelineProcess {
  NodeId node;       // 0: the coordinator
  std::string name;  // "worker 0"
  std::string host;
  int64_t pid = 0;
  std::vector<ClockSample> clock;  // as in SpansRequest
  uint64_t dropped = 0;
  std::string missing;  // why its spans are not complete; empty: they are
};
LEAT_FIELDS(TimelineProcess, (node), (name, Limits::kName), (host, Limits::kName), (pid),
            (clock, Limits::kClockSamples), (dropped), (missing, Limits::kName));

// `leat timeline`: records what all processes do, and fetches it, part by part.
struct TimelineRequest {
  static constexpr Permission kPermission{"admin", "timeline request"};  // takes time of all processes
  enum class Kind : uint8_t { kStart = 0, kFetch = 1 } kind = Kind::kStart;
  Duration length{};       // kStart: to record
  uint64_t recording = 0;  // kFetch
  uint64_t part = 0;       // kFetch: 0, 1, …
};
LEAT_ENUM(TimelineRequest::Kind, (kStart, "start"), (kFetch, "fetch"));
LEAT_FIELDS(TimelineRequest, (kind), (length), (recording), (part));
struct TimelineReply {
  Status status;
  uint64_t recording = 0;
  Duration left{};        // kFetch: until it is complete, at the latest; then there are parts
  Time begin{0}, end{0};  // the recorded time, by the coordinator's clock
  uint64_t parts = 0;     // 0: it is not complete
  std::vector<TimelineProcess> processes;  // part 0
  NodeId node;                             // the process whose `spans` the part has
  Bytes spans;                             // as in SpansRequest
};
LEAT_FIELDS(TimelineReply, (status), (recording), (left), (begin, Limits::kTime), (end, Limits::kTime),
            (parts), (processes, Limits::kMembers), (node), (spans, Limits::kSpans));

// Asks for the job, and for the feeds to read it from. Needs no membership: a feed asks before it joins,
// others ask again when they have lost a feed.
struct JobRequest {
  static constexpr Permission kPermission{"worker, server, bots, feed, serve", "request for the job"};
  std::string version;  // as in JoinRequest
};
LEAT_FIELDS(JobRequest, (version, Limits::kName));
struct JobReply {
  Status status;
  std::string job;                 // as in JoinReply
  std::vector<std::string> feeds;  // their addresses; ":PORT" is on the coordinator's host
};
LEAT_FIELDS(JobReply, (status), (job, Limits::kDocument), (feeds, Limits::kMembers, Each(Limits::kName)));

struct StatusRequest {
  static constexpr Permission kPermission{"all", "status request"};
  bool with_view = true;
};
LEAT_FIELDS(StatusRequest, (with_view));

// For people and programs: `leat status`, the progress line, the summary.
struct StatusReply {
  std::string json;  // made by the coordinator's shell
};
LEAT_FIELDS(StatusReply, (json, Limits::kDocument));

struct AdminRequest {
  static constexpr Permission kPermission{"admin", "admin request"};  // by kind also, or only, pool
  enum class Kind : uint8_t {
    kCheckpoint = 0,
    kStop = 1,      // checkpoint, then end the job
    kNodeLost = 2,  // the launcher has seen the process end: do not wait for its heartbeats
    kContinue = 3,  // after kPause, or past CoordinatorConfig::pause_at
    kDiscard = 4,   // end the job without another checkpoint
    kScale = 5,     // other numbers of workers and servers are wanted
    kDrain = 6,     // a member is to leave, after it has handed over what it has
    kPause = 7,     // no new leases until kContinue
    kGrant = 8,     // a pool: no more than these numbers of workers and servers, whatever is wanted
  } kind = Kind::kStop;
  NodeId node;  // kNodeLost
  // kScale, kGrant. None: as before. The most that a grant allows count.
  std::optional<WorkerRange> workers;
  std::optional<uint32_t> servers;
  // kDrain: the member, by the name that the status has for it.
  Role role = Role::kWorker;
  uint32_t index = 0;
};
LEAT_ENUM(AdminRequest::Kind, (kCheckpoint, "checkpoint"), (kStop, "stop"), (kNodeLost, "node lost"),
          (kContinue, "continue"), (kDiscard, "discard"), (kScale, "scale"), (kDrain, "drain"),
          (kPause, "pause"), (kGrant, "grant"));
LEAT_FIELDS(AdminRequest, (kind), (node), (workers), (servers), (role), (index));
struct AdminReply {
  Status status;
};
LEAT_FIELDS(AdminReply, (status));

// To a pool, not to a coordinator (src/run/pool). The bodies are JSON.
struct PoolRequest {
  static constexpr Permission kPermission{"admin", "request to a pool"};  // by kind instead agent, or all
  enum class Kind : uint8_t {
    kReport = 0,  // an agent's report
    kSubmit = 1,
    kList = 2,
    kCancel = 3,
    kAccess = 4,  // a job's address and token, for a user
  } kind = Kind::kList;
  std::string body;
};
LEAT_ENUM(PoolRequest::Kind, (kReport, "report"), (kSubmit, "submit"), (kList, "list"), (kCancel, "cancel"),
          (kAccess, "access"));
LEAT_FIELDS(PoolRequest, (kind), (body, Limits::kDocument));
struct PoolReply {
  Status status;
  std::string body;
};
LEAT_FIELDS(PoolReply, (status), (body, Limits::kDocument));

// The reply to an invalid message.
struct Refusal {
  Status status;
};
LEAT_FIELDS(Refusal, (status));
Status Check(const Refusal& refusal);

using ControlRequest =
    std::variant<JoinRequest, WorkerHeartbeat, ServerHeartbeat, BotsHeartbeat, StatusRequest, AdminRequest,
                 KeepAlive, JobRequest, FeedHeartbeat, Promise, FollowRequest, SpansRequest, TimelineRequest,
                 ServeHeartbeat, PoolRequest>;
LEAT_KINDS(ControlRequest, (JoinRequest, 1, "join"), (WorkerHeartbeat, 2, "worker"),
           (ServerHeartbeat, 3, "server"), (BotsHeartbeat, 4, "bots"), (StatusRequest, 5, "status"),
           (AdminRequest, 6, "admin"), (KeepAlive, 7, "keep_alive"), (JobRequest, 8, "job"),
           (FeedHeartbeat, 9, "feed"), (Promise, 10, "promise"), (FollowRequest, 11, "follow"),
           (SpansRequest, 12, "spans"), (TimelineRequest, 13, "timeline"), (ServeHeartbeat, 14, "serve"),
           (PoolRequest, 15, "pool"));
// A Candidacy may answer the heartbeat of a server or worker.
using ControlReply =
    std::variant<Refusal, JoinReply, WorkerHeartbeatReply, ServerHeartbeatReply, BotsHeartbeatReply,
                 StatusReply, AdminReply, KeepAliveReply, JobReply, FeedHeartbeatReply, PromiseReply,
                 FollowReply, SpansReply, TimelineReply, ServeHeartbeatReply, PoolReply, Candidacy>;
LEAT_KINDS(ControlReply, (Refusal, 1, "refusal"), (JoinReply, 2, "join"), (WorkerHeartbeatReply, 3, "worker"),
           (ServerHeartbeatReply, 4, "server"), (BotsHeartbeatReply, 5, "bots"), (StatusReply, 6, "status"),
           (AdminReply, 7, "admin"), (KeepAliveReply, 8, "keep_alive"), (JobReply, 9, "job"),
           (FeedHeartbeatReply, 10, "feed"), (PromiseReply, 11, "promise"), (FollowReply, 12, "follow"),
           (Candidacy, 13, "candidacy"), (SpansReply, 14, "spans"), (TimelineReply, 15, "timeline"),
           (ServeHeartbeatReply, 16, "serve"), (PoolReply, 17, "pool"));

// A term has the run of a job in its upper half: a random number of the job's directory. The lower half is
// the number of the coordinator. Terms of different runs do not compare: their members have nothing in
// common.
constexpr uint64_t MakeTerm(uint32_t run, uint64_t number) {
  return uint64_t{run} << 32 | number;
}
constexpr bool SameRun(uint64_t a, uint64_t b) {
  return a >> 32 == b >> 32;
}
constexpr uint64_t NumberOf(uint64_t term) {
  return term & 0xffffffff;
}

uint64_t TermOf(const ControlRequest& request);  // a heartbeat's term; 0 for other requests
// A request of a member of another run, whose coordinator had this address: of `term`, and without its node,
// which may be somebody else's here.
ControlRequest OfThisRun(ControlRequest request, uint64_t term);
// Returns the elector's state in the heartbeat of a server or worker; null for other requests.
const ElectorState* ElectorOf(const ControlRequest& request);
NodeId NodeOf(const ControlRequest& request);  // sender of a heartbeat or keep-alive; 0 for other requests
// WorkerHeartbeat::metrics, and as in other requests. Requests without such a field are left alone.
std::string MetricsIn(const ControlRequest& request);
void SetMetrics(const std::string& address, ControlRequest* request);
// The addresses of standby coordinators that a heartbeat's reply names, in its view if it has one.
std::vector<std::string> StandbysIn(const ControlReply& reply);

}  // namespace leat::protocol

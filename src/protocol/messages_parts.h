// Parts of the messages between roles and the coordinator: members, and what each concern says in heartbeats
// and their replies.
//
// Receivers treat them as untrusted: all fields are checked on arrival by the rules of their lists.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fields/fields.h"
#include "base/ids.h"
#include "base/status.h"
#include "protocol/cut.h"
#include "protocol/ledger.h"

namespace leat::protocol {

// Upper limits per message: far above what a job needs, low enough to be harmless.
struct Limits {
  using AtMost = fields::AtMost;
  static constexpr AtMost kMembers{1 << 16};
  static constexpr AtMost kSlices{1 << 20};
  static constexpr AtMost kSlice{kSlices.most - 1};
  static constexpr AtMost kPartitions{Cut::kMaxPartitions};
  static constexpr AtMost kPartition{Cut::kMaxPartitions - 1};
  static constexpr AtMost kLeases{1 << 16};
  static constexpr AtMost kRounds{1 << 12};
  static constexpr AtMost kLanes{1 << 12};  // lanes of an all-reduce round
  static constexpr AtMost kBins{1 << 16};
  static constexpr AtMost kMoves{1 << 10};    // slice moves in a heartbeat or reply
  static constexpr AtMost kBatches{1 << 16};  // scores of batches in a worker's heartbeat
  static constexpr AtMost kCoordinators{1 << 10};
  static constexpr AtMost kClockSamples{16};
  static constexpr AtMost kSpans{256 << 10};      // encoded
  static constexpr AtMost kGradients{512 << 10};  // encoded distributions
  static constexpr AtMost kName{1 << 10};         // an address, a host, a version
  static constexpr AtMost kPath{1 << 12};
  static constexpr fields::CutTo kText{1 << 16};  // a reason, a dead letter
  static constexpr AtMost kScores{1 << 20};       // encoded counts of scores
  static constexpr AtMost kShare{1 << 16};        // encoded distributions of labels and features
  static constexpr AtMost kDocument{4 << 20};     // a job, a status
  // Leaves room for the numbers of the following steps.
  static constexpr AtMost kFirstStep{~uint64_t{0} - Cut::kMaxBatches};
  // Since a machine was started. Sums and differences do not overflow.
  static constexpr int64_t kLatest = int64_t{1} << 61;
  static constexpr fields::Between kTime{0, kLatest};
  static constexpr fields::Between kDifference{-kLatest - 1, kLatest};
};

// A request's kPermission: the certificates that allow it. Rules about its content are in
// net/rpc/codec.cc.
struct Permission {
  std::string_view roles;  // as certificates name them: "server, worker"; "all": any certificate
  std::string_view name;   // the request's name in logs: "worker's heartbeat"
};

// kCoordinator joins as a standby: it takes over when the coordinator does not answer any more.
// kServe answers predictions with a copy of the parameters, and changes nothing.
enum class Role : uint8_t { kCoordinator = 0, kServer = 1, kWorker = 2, kBots = 3, kFeed = 4, kServe = 5 };
LEAT_ENUM(Role, (kCoordinator, "standby"), (kServer, "ps"), (kWorker, "worker"), (kBots, "bots"),
          (kFeed, "feed"), (kServe, "serve"));
inline std::string_view Name(Role role) {
  return fields::NameOf(role);
}

struct Member {
  enum class State : uint8_t {
    kActive = 0,
    kDraining = 1,  // it has been told to leave, and gets no work
    kStandby = 2,   // a worker that gets no work until it takes the place of another
  };
  NodeId node;
  Role role = Role::kWorker;
  uint32_t index = 0;   // worker 0, 1, …: the lowest free one; standby workers are counted by themselves
  std::string address;  // data-plane address, "127.0.0.1:40123"; empty if it has none
  State state = State::kActive;
};
LEAT_ENUM(Member::State, (kActive, "active"), (kDraining, "draining"), (kStandby, "standby"));
LEAT_FIELDS(Member, (node), (role), (index), (address, Limits::kName), (state));
std::string Name(const Member& member);  // "ps 0", "standby 0"

// The number of workers of a job: fixed, or a range from which the autoscaler chooses.
struct WorkerRange {
  static constexpr uint32_t kMost = 10'000;
  uint32_t least = 0, most = 0;
  bool fixed() const { return least == most; }
  bool valid() const { return least >= 1 && least <= most && most <= kMost; }
};
LEAT_FIELDS(WorkerRange, (least), (most));
std::string ToString(const WorkerRange& workers);  // "4", "2:8"

struct SliceLocation {
  NodeId server;  // 0: currently none
  Incarnation incarnation;
  bool live = false;  // the server has reported this incarnation, so it answers
};
LEAT_FIELDS(SliceLocation, (server), (incarnation), (live));

// The members of the job and the placement of slices. `generation` grows with every change.
struct View {
  Generation generation;
  std::vector<Member> members;
  std::vector<SliceLocation> slices;  // by slice id
  // By partition: the address of the feed that publishes its predictions, ":PORT" on the coordinator's host.
  // Empty: there is none at present.
  std::vector<std::string> publishers;
  bool ready() const;                         // there are slices, and all are live
  std::vector<std::string> standbys() const;  // addresses of the members that are standby coordinators
  const Member* Find(NodeId node) const;
};
LEAT_FIELDS(View, (generation), (members, Limits::kMembers), (slices, Limits::kSlices),
            (publishers, Limits::kPartitions, Each(Limits::kName)));

// The rank of a process started by mpirun.
struct MpiRank {
  uint32_t rank = 0;
  uint32_t members = 0;
};
LEAT_FIELDS(MpiRank, (rank), (members));

// A split for a worker to train: the runs of `cut` in `missing`.
struct Lease {
  uint64_t id = 0;  // unique
  Cut cut;
  RunSet missing;
  // Stepped strategies: the split is one lane of a round. The k-th run of `assigned` belongs to step
  // first_step + k; `missing` is a subset.
  uint64_t first_step = 0;
  uint32_t lane = 0;
  uint32_t width = 1;
  uint32_t needed = 1;
  RunSet assigned;
  float rate = 1;                         // as PushHeader::rate, for all runs
  std::optional<LabelRange> labels = {};  // late labels of the cut; set if and only if the job has them
};
LEAT_FIELDS(Lease, (id), (cut), (missing, RunsOf(self.cut)), (first_step, Limits::kFirstStep), (lane),
            (width), (needed), (assigned, MaybeRunsOf(self.cut)), (rate), (labels));
Status Check(const Lease& lease);

// Predictions (predictions/publisher.h): a partition that a feed publishes. A feed has whole publishing
// groups: the partitions of a group have one assignment, and are written by one producer.
struct PublisherOrder {
  uint32_t partition = 0;
  uint32_t group = 0;
  uint64_t assignment = 0;  // the group's assignment: unique; one that replaces it is larger
  uint64_t start = 0;       // where the job began to read the partition
  bool fresh = false;       // nothing of the partition has been cut, so nothing of it can be published
};
LEAT_FIELDS(PublisherOrder, (partition, Limits::kPartition), (group, Limits::kPartition), (assignment),
            (start), (fresh));

struct PublisherReport {
  static constexpr size_t kMaxHeld = 64;
  uint32_t partition = 0;
  uint64_t assignment = 0;            // assignment of the order that it answers
  std::optional<uint64_t> published;  // all events before it are in the topic; none: not known yet
  std::vector<OpenSplit> held;        // the first splits from there on, at most kMaxHeld: runs with scores
  uint64_t rescored = 0;              // events in the topic with RunScores::rescored, of this assignment
  Status status;  // why nothing can be published now; kDataLoss and kFailedPrecondition end the job
};
LEAT_FIELDS(PublisherReport, (partition, Limits::kPartition), (assignment), (published),
            (held, AtMost(PublisherReport::kMaxHeld)), (rescored), (status));
Status Check(const PublisherReport& report);

// Scores that have not reached their publisher yet: none of splits that begin before `begin`.
struct UnsentScores {
  uint32_t partition = 0;
  uint64_t begin = 0;
};
LEAT_FIELDS(UnsentScores, (partition, Limits::kPartition), (begin));

// Sums over the events of one batch, or of several in a row, scored before training on them.
struct BatchScores {
  uint64_t events = 0;
  double loss_sum = 0;
  uint64_t correct = 0;
  double absolute_error = 0;
};
LEAT_FIELDS(BatchScores, (events), (loss_sum), (correct), (absolute_error));

// How long a worker has waited for a server: from each push to its reply.
struct ServerWait {
  uint32_t ps = 0;  // the server's index
  double seconds = 0;
};
LEAT_FIELDS(ServerWait, (ps), (seconds, NotNegative, As("wait_s")));

// Cumulative since the process started. For totals, use the last report of each node.
struct WorkerProgress {
  uint64_t steps = 0;
  uint64_t events = 0;        // scored and trained
  double loss_sum = 0;        // Σ over events, before training on them
  uint64_t correct = 0;       // classification: arg max equals the label
  double absolute_error = 0;  // regression: Σ |prediction - label|
  uint64_t rejected_batches = 0;
  uint64_t dead_letters = 0;
  double cpu_seconds = 0;
  // A worker's time: for steps without the wait for others, and waiting for servers or the other members.
  // Waits that are not over are included, up to the report.
  double compute_seconds = 0;
  double wait_seconds = 0;
  // Not cumulative: the longest time between the ends of two batches, of the last 5 to 10 seconds.
  double longest_step_seconds = 0;
  // The stream: what was read and decoded, the time that decoding took on a thread of its own, time without
  // anything to train, and splits that wait to be trained.
  uint64_t input_records = 0;
  uint64_t input_bytes = 0;
  double decode_seconds = 0;
  double input_wait_seconds = 0;
  uint32_t splits_ready = 0;
  // metrics::AucCounts, encoded: of the model's scores, and of the known probability. Empty if the job has
  // none. Opaque to the protocol; readers decode and check them.
  Bytes scores, true_scores;
  uint64_t feed_bytes = 0;       // read from feeds
  uint64_t feed_retries = 0;     // attempts to read from a feed that failed
  uint64_t push_retries = 0;     // requests to servers that failed or were not answered in time
  std::string last_dead_letter;  // "partition 3 offset 991: amount: 'abc' is not a number"
  // Late labels: events of the splits that this worker has read for which no label came. Like a dead letter,
  // an event counts each time its split is read: again if the split is leased again, whichever runs of it are
  // still missing. So the sum is exact while no split is read twice, and never too small.
  uint64_t unjoined = 0;
  // Offsets that retention had removed when their splits were read. Counted as `unjoined` is.
  uint64_t lost_to_retention = 0;
  // Not cumulative: the last entries of the sequence of all batches, from entry `first_batch` on. Entries
  // that no answer has confirmed are repeated. Empty if the job has no use for them.
  uint64_t first_batch = 0;
  std::vector<BatchScores> batches;
  // metrics::Share, encoded: what the worker has trained on since it joined. Empty: as in the report before.
  // Opaque to the protocol, as `scores`.
  Bytes share;
  std::vector<ServerWait> server_waits;  // by server
};
LEAT_FIELDS(WorkerProgress, (steps), (events, Unshown), (loss_sum, Unshown), (correct, Unshown),
            (absolute_error, Unshown), (rejected_batches, Unshown), (dead_letters, Sparse),
            (cpu_seconds, NotNegative, Unshown), (compute_seconds, NotNegative, As("compute_s")),
            (wait_seconds, NotNegative, As("wait_s")), (longest_step_seconds, NotNegative, Unshown),
            (input_records, Unshown), (input_bytes), (decode_seconds, NotNegative, As("decode_s")),
            (input_wait_seconds, NotNegative, As("input_wait_s")), (splits_ready),
            (scores, Limits::kScores, Unshown), (true_scores, Limits::kScores, Unshown), (feed_bytes, Sparse),
            (feed_retries, Sparse), (push_retries, Sparse), (last_dead_letter, Limits::kText, Sparse),
            (unjoined, Unshown), (lost_to_retention, Unshown), (first_batch, Unshown),
            (batches, Limits::kBatches, Unshown), (share, Limits::kShare, Unshown),
            (server_waits, Limits::kMembers, Sparse));

struct SliceIncarnation {
  SliceId slice;
  Incarnation incarnation;
  friend auto operator<=>(const SliceIncarnation&, const SliceIncarnation&) = default;
};
LEAT_FIELDS(SliceIncarnation, (slice, Limits::kSlice), (incarnation));

// A run with a non-finite gradient.
struct RejectedRun {
  NodeId worker;
  Cut cut;
  uint32_t run = 0;
};
LEAT_FIELDS(RejectedRun, (worker), (cut), (run));
Status Check(const RejectedRun& rejected);

// A server's file of a checkpoint, written and synced.
struct ShardReport {
  uint64_t checkpoint = 0;
  Status status;
  std::string file;  // in the checkpoint's directory
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // checksum of the file's head, which has the checksums of the rest
  std::vector<SliceIncarnation> slices;
};
LEAT_FIELDS(ShardReport, (checkpoint), (status), (file, Limits::kPath), (bytes), (checksum, Fixed),
            (slices, Limits::kSlices));

// A slice that a server must hold: newly initialized, read from a checkpoint's file, or handed over by
// another server.
struct SliceOrder {
  SliceId slice;
  Incarnation incarnation;
  std::string directory;  // the checkpoint's directory; empty: initial values, empty ledger
  std::string file;
  uint64_t file_checksum = 0;  // as ShardReport::checksum
  // The move that brought the slice (MoveOrder::id), in which case the checkpoint does not matter; 0: none.
  // For a replica that takes the place of its primary: the epoch.
  uint64_t move = 0;
};
LEAT_FIELDS(SliceOrder, (slice, Limits::kSlice), (incarnation), (directory, Limits::kPath),
            (file, Limits::kPath), (file_checksum, Fixed), (move));

// Slices that a server hands over to another one, all together. It stops taking runs of each of them, once no
// step of it is half done, and then sends them. As long as the order is repeated, they remain frozen: the
// slices go on here if it ends and they are still ordered from this server.
struct MoveOrder {
  enum class Kind : uint8_t {
    kMove = 0,
    kCopy = 1,      // the other server is to have replicas, and this one remains the primary
    kHandOver = 2,  // the other server has the replicas, so nothing is sent: they take the primaries' place
  };
  uint64_t id = 0;  // unique; a later one has a larger number
  NodeId to;
  std::string address;                   // address of `to`
  std::vector<SliceIncarnation> slices;  // ascending
  uint64_t version = 0;                  // stepped strategies: every slice of the job has reached it
  Kind kind = Kind::kMove;
};
LEAT_ENUM(MoveOrder::Kind, (kMove, "move"), (kCopy, "copy"), (kHandOver, "hand over"));
LEAT_FIELDS(MoveOrder, (id), (to), (address, Limits::kName), (slices, Limits::kSlices), (version), (kind));

// A server's part in a move, repeated as long as it has one.
struct MoveReport {
  enum class Stage : uint8_t {
    kFrozen = 0,   // the slices take no runs here any more
    kArrived = 1,  // all of them are here, and wait for the order to hold them
    kFailed = 2,   // they cannot be handed over, for the reason `failure`
  };
  uint64_t id = 0;
  Stage stage = Stage::kFrozen;
  std::string failure;
};
LEAT_ENUM(MoveReport::Stage, (kFrozen, "frozen"), (kArrived, "arrived"), (kFailed, "failed"));
LEAT_FIELDS(MoveReport, (id), (stage), (failure, Limits::kText));

// Slices that are on two servers: the primary takes runs and forwards them, and the replica takes what is
// forwarded. They begin as copies of each other in an epoch: the id of the move that made the copy, or that
// made this server the primary.
struct ReplicaGroup {
  uint64_t epoch = 0;
  NodeId server;                         // the other one
  std::string address;                   // address of the replica's server
  std::vector<SliceIncarnation> slices;  // ascending
};
LEAT_FIELDS(ReplicaGroup, (epoch), (server), (address, Limits::kName), (slices, Limits::kSlices));

// A replica that is missing, or has missed something, or cannot be reached. It is useless.
struct LostReplica {
  SliceIncarnation slice;
  uint64_t epoch = 0;
};
LEAT_FIELDS(LostReplica, (slice), (epoch));

// Cumulative since the slice came to the server.
struct SliceTraffic {
  SliceId slice;
  uint64_t pushes = 0;  // and pulls
  uint64_t bytes = 0;   // gradients and values
};
LEAT_FIELDS(SliceTraffic, (slice, Limits::kSlice), (pushes), (bytes));

struct CheckpointOrder {
  uint64_t id = 0;
  std::string directory;  // exists and is writable
  uint64_t version = 0;   // stepped strategies: each slice is saved at this version
};
LEAT_FIELDS(CheckpointOrder, (id), (directory, Limits::kPath), (version));

// All-reduce: the workers that make steps together (protocol/allreduce/member_groups.h).
struct Group {
  uint64_t id = 0;              // unique; later groups have larger ids
  std::vector<Member> members;  // by rank
  // The state it starts from. Decided once every member has reported, under this id, what it holds.
  bool decided = false;
  uint64_t step = 0;  // all continue from this step
  NodeId holder;      // the member that has it; 0: none, all load `orders`
  std::vector<SliceOrder> orders;
};
LEAT_FIELDS(Group, (id), (members, Limits::kMembers), (decided), (step), (holder), (orders, Limits::kSlices));

// All-reduce: the runs of consecutive steps, for all lanes. Step first_step + k consists of the k-th run of
// each lane's `assigned`.
struct Round {
  struct Lane {
    Cut cut;
    RunSet assigned;
    std::optional<LabelRange> labels = {};  // as Lease::labels
  };
  uint64_t first_step = 0;
  float rate = 1;           // as PushHeader::rate, of all steps
  std::vector<Lane> lanes;  // by lane; all with the same number of runs
  uint64_t end() const { return first_step + (lanes.empty() ? 0 : lanes.front().assigned.count()); }
};
LEAT_FIELDS(Round::Lane, (cut), (assigned, RunsOf(self.cut)), (labels));
LEAT_FIELDS(Round, (first_step, Limits::kFirstStep), (rate), (lanes, Limits::kLanes));
Status Check(const Round& round);

// All-reduce: a worker's report about its copy of all slices.
struct MemberReport {
  uint64_t group = 0;      // the newest group it has joined; it has left all earlier ones
  bool holds = false;      // it has a state, at `step`
  bool connected = false;  // to its peers in `group`
  uint64_t step = 0;       // steps completed
  uint64_t events = 0;     // good records in them
  std::vector<PartitionLedger> partitions;
  uint64_t rounds_until = 0;         // it knows the rounds of all steps before this one
  std::string failure;               // why it cannot continue in `group`; empty: it can
  std::optional<ShardReport> shard;  // repeated until a newer checkpoint is ordered
  // The current number of consecutive non-finite steps, and a run of the last of them.
  uint32_t consecutive_rejected = 0;
  std::optional<RejectedRun> rejected;
  uint64_t skipped = 0;  // steps recorded but not applied
  bool waiting = false;  // for others, or for work
  bool started = false;  // it has the state that `group` starts from
};
LEAT_FIELDS(MemberReport, (group), (holds), (connected), (step), (events), (partitions, Limits::kPartitions),
            (rounds_until), (failure, Limits::kText), (shard), (consecutive_rejected), (rejected), (skipped),
            (waiting), (started));
Status Check(const MemberReport& report);

// A lease that a worker has from the former coordinator.
struct LeaseClaim {
  uint64_t lease = 0;
  uint32_t partition = 0;  // partition of the cut, as `begin`
  Position begin;
  uint64_t first_step = 0;  // stepped strategies, as in Lease
  uint32_t lane = 0;
};
LEAT_FIELDS(LeaseClaim, (lease), (partition, Limits::kPartition), (begin), (first_step), (lane));

// To record what the process does (show/timeline/), for so long from now on.
struct RecordOrder {
  uint64_t recording = 0;  // unique; a later one has a larger number
  Duration length{};
};
LEAT_FIELDS(RecordOrder, (recording), (length));

// Slices with equal ledgers, as most have most of the time. A server's report contains only what the
// coordinator does not know yet. A ledger only grows within an incarnation, so everything ever reported about
// one remains true.
struct LedgerReport {
  std::vector<SliceIncarnation> slices;
  uint64_t events = 0;  // the minimum over the slices
  // Partitions from `first_partition` on. Others are unchanged, and so are open splits that are not listed.
  std::vector<PartitionLedger> partitions;
  uint64_t version = 0;  // the minimum over the slices: the next step in stepped strategies
  uint32_t first_partition = 0;
  bool more = false;  // the rest about these slices follows, and the slices are not live until then
};
LEAT_FIELDS(LedgerReport, (slices, Limits::kSlices), (events), (partitions, Limits::kPartitions), (version),
            (first_partition, Limits::kPartitions), (more));
Status Check(const LedgerReport& report);

struct ServerProgress {
  uint64_t pushes = 0;
  uint64_t pulls = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t bytes_held = 0;  // values and slots
  uint64_t duplicates = 0;  // runs rejected by the ledger
  // histogram of the staleness of applied slices; the last bin includes all higher values
  std::vector<uint64_t> staleness;
  uint64_t staleness_sum = 0, staleness_count = 0;
  double cpu_seconds = 0;
  uint64_t skipped = 0;      // runs (stepped: steps) recorded but not applied, because they were not finite
  uint64_t conflicts = 0;    // slices of pushes refused with SliceOutcome::kConflict
  uint64_t bytes_moved = 0;  // sent to other servers with slices, whether these were handed over or not
  uint64_t refused = 0;      // requests of followers for more than values
};
LEAT_FIELDS(ServerProgress, (pushes), (pulls), (bytes_in), (bytes_out), (bytes_held), (duplicates),
            (staleness, Limits::kBins), (staleness_sum), (staleness_count), (cpu_seconds, NotNegative),
            (skipped), (conflicts), (bytes_moved), (refused));

// Cumulative since the process started, but `interval_seconds`.
struct FollowProgress {
  uint64_t rounds = 0;          // completed rounds, each over all slices
  uint64_t changed = 0;         // completed rounds that brought other values
  uint64_t stretched = 0;       // completed rounds that began later than wanted, to spare servers and links
  uint64_t bytes_in = 0;        // values received
  uint64_t retries = 0;         // requests that failed or were not answered in time
  double interval_seconds = 0;  // from the beginning of one round to that of the next, at present
  double cpu_seconds = 0;
};
LEAT_FIELDS(FollowProgress, (rounds), (changed), (stretched), (bytes_in), (retries),
            (interval_seconds, NotNegative), (cpu_seconds, NotNegative));

}  // namespace leat::protocol

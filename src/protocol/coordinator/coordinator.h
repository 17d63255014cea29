// The coordinator as a state machine: the view, cuts and leases, checkpoints, the end of the job.
//
// It uses no sockets, threads, files or clock. Every input returns actions that the shell executes in order:
// a Journal record must be on disk before the Reply after it is sent. Not thread-safe.
//
// Its only source about progress is the servers' ledgers (docs/architecture.md: exactly once). Cuts are kept
// from the watermark of the oldest kept checkpoint on, so that older slices can be trained again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/coordinator/leases/lease_pace.h"
#include "protocol/messages_control.h"
#include "protocol/placement.h"
#include "protocol/strategy.h"
#include "topology/near_partitions.h"
#include "topology/topology_settings.h"

namespace leat::protocol {

// The bytes per second at which every checkpoint can be saved.
inline constexpr uint64_t kSlowestDisk = 4 << 20;

// For a while: the next `events` events, an equal share of each partition's.
struct RateRaise {
  float factor = 1;  // on the learning rate; ValidRate
  uint64_t events = 0;
};

struct CoordinatorConfig {
  SliceTable table;
  Placement placement;
  uint32_t servers = 1;  // required before slices are placed
  // At most so many hold slices; further ones are spares. Slices move to servers that join later. 0: as many
  // as `servers`.
  uint32_t max_servers = 0;
  // 2: each slice also has a replica on another server, as long as there is one.
  uint32_t replicas = 1;
  uint32_t workers = 1;  // of the job when it starts; MPI: all its workers
  StrategyConfig strategy;
  CutRules cuts;
  std::vector<uint32_t> partitions;  // of the stream: 0, 1, …
  Duration heartbeat_interval = std::chrono::milliseconds(500);
  Duration heartbeat_timeout = std::chrono::seconds(2);
  // An overdue lease is granted a second time. All-reduce: an overdue member leaves the job.
  LeaseLimits leases;
  // A role that is alive, but has finished no kernel and sent no heartbeat for this long, is stuck.
  Duration stuck_timeout = std::chrono::minutes(15);
  Duration checkpoint_interval{0};  // 0: only at the end and on demand
  // Of one checkpoint, in addition to the time that its bytes take at kSlowestDisk. Also for how long the end
  // of the job waits, three times over, for servers that hold the trained state.
  Duration checkpoint_timeout = std::chrono::seconds(60);
  // Slices of a lost server move to a spare at once, or to the next server that joins; after this time, to
  // the remaining servers.
  Duration server_wait = std::chrono::seconds(2);
  // After the first worker, before those that stand by take the places of others that have not come yet.
  Duration standby_wait = std::chrono::seconds(5);
  Duration tail_wait = std::chrono::milliseconds(200);  // a live tail older than this becomes a shorter split
  // Stepped strategies: the minimum number of steps leased at a time. Enough to keep workers busy while
  // servers report their progress and workers ask for more.
  uint32_t open_steps = 128;
  // Stepped strategies: a lane not requested by its worker for this long goes to any other.
  Duration lane_wait = std::chrono::milliseconds(500);
  uint32_t max_consecutive_rejected = 5;  // consecutive non-finite gradients that end the job
  // After splits with this many events no split is made until AdminRequest::kContinue. 0: no limit.
  uint64_t pause_at = 0;
  std::optional<RateRaise> raise;  // what OnDrift does
  uint32_t keep_checkpoints = 2;
  // The predictions of each event are published by feeds, and no cut begins while this many events of all
  // partitions together are cut and not published. 0: the job publishes none.
  uint64_t max_unpublished = 0;
  uint32_t publishing_groups = 8;  // of a job that begins, at most
  // Labels come on a topic of their own, later than the events, and cuts reach up to the last label mark
  // only. Needs cuts.epochs = 1.
  bool late_labels = false;
  // Of this coordinator: higher than those of all former ones of this run (MakeTerm). 0: in tests that have
  // only one.
  uint64_t term = 0;
  // The members in the journal may be alive and follow this coordinator, with all that they hold. False:
  // their processes are gone, or were started for another job.
  bool take_over = false;
  // The numbers of workers and servers that are wanted; of workers {0, 0}: `workers`. While there are fewer
  // workers, those that stand by take their places. All-reduce: the first group waits for this many. Both for
  // a limited time.
  WorkerRange wanted_workers;
  bool keep_scale = false;         // the wanted numbers of the journal count instead
  bool pool = false;               // the job's processes are started by a pool, whose grants count
  std::string job;                 // sent to each process that joins
  std::vector<std::string> feeds;  // that are no members: of the coordinator's process
  // Of the coordinator's program and job. Processes with other values are rejected. Empty and 0: not
  // compared.
  std::string version;
  uint64_t job_hash = 0;
  uint64_t network = 0;  // of the coordinator, as JoinRequest::network; 0: unknown
  topology::TopologySettings topology;
  // By partition; empty: not known. Workers prefer the splits of partitions near them.
  std::vector<topology::PartitionPlaces> partition_places;
};

// ---- persistent state of the coordinator: the journal and the manifests
struct CutsMade {  // synced before any of them is leased
  std::vector<Cut> cuts;
};
// Stepped strategies: splits trained side by side, one per lane, all with the same number of runs. Step
// first_step + k consists of the k-th run of each lane. Synced before any of it is leased. It introduces its
// new cuts, without a CutsMade.
struct RoundMade {
  struct Lane {
    Cut cut;
    RunSet assigned;  // all runs of a new cut, or the late runs of a former round
    friend bool operator==(const Lane&, const Lane&) = default;
  };
  uint64_t first_step = 0;
  uint32_t needed = 1;      // lanes required for a step
  std::vector<Lane> lanes;  // by lane
  friend bool operator==(const RoundMade&, const RoundMade&) = default;
};
struct StreamStart {  // where each partition begins: once, before the first cut
  std::vector<Position> start;
};
// The passes over each partition, and so the borders at which a stream ended that has grown since. Synced
// before any cut of a pass that other records do not have. The last one counts; a job that passes over its
// stream once needs none.
struct PassesPlanned {
  std::vector<Passes> partitions;
  friend bool operator==(const PassesPlanned&, const PassesPlanned&) = default;
};
// Ids below these may be in use and are never given again: of nodes; of leases, incarnations and generations.
// A truncated journal keeps the last of these, and StreamStart.
struct IdsReserved {
  uint64_t node = 0;
  uint64_t lease = 0;
};
// A higher learning rate: for the cuts that begin in [first, last), by partition. A round has the highest
// factor of its cuts. Synced before any of these cuts is leased.
struct RateRaised {
  float factor = 1;
  std::vector<Position> first, last;
  // Every state that has all cuts before `watermark` has the whole span.
  bool Before(const std::vector<Position>& watermark) const;
  friend bool operator==(const RateRaised&, const RateRaised&) = default;
};
// Late labels: new marks of a partition, in order. Synced before any cut that needs them is made.
struct LabelsMarked {
  uint32_t partition = 0;
  std::vector<LabelMark> marks;
  friend bool operator==(const LabelsMarked&, const LabelsMarked&) = default;
};
// The membership, from which the next coordinator takes over: on disk before the process learns that it is a
// member, and before anything is done because a member is gone. A later record of the same member replaces
// it.
struct MemberJoined {
  Member member;
  std::string host;
  int64_t pid = 0;
  uint64_t process = 0;  // as JoinRequest::process
  uint64_t network = 0;  // as JoinRequest::network
  topology::HostPlace place = {};
  friend bool operator==(const MemberJoined&, const MemberJoined&) = default;
};
struct MembersLeft {  // or were evicted
  std::vector<NodeId> nodes;
  friend bool operator==(const MembersLeft&, const MembersLeft&) = default;
};
// Where slices are: synced before their servers get the orders, also after a move. A later record replaces
// the earlier ones of the same slices.
struct SlicesPlaced {
  struct Place {
    SliceId slice;
    NodeId server;
    Incarnation incarnation;
    uint64_t move = 0;   // as SliceOrder::move
    NodeId replica;      // the server that has its replica; 0: none
    uint64_t epoch = 0;  // of the replica (ReplicaGroup)
    friend bool operator==(const Place&, const Place&) = default;
  };
  std::vector<Place> places;
  friend bool operator==(const SlicesPlaced&, const SlicesPlaced&) = default;
};
// All-reduce: a group, its members by rank. Synced before any of them knows it. Replaces the earlier ones.
struct GroupNamed {
  uint64_t id = 0;
  std::vector<NodeId> members;
  friend bool operator==(const GroupNamed&, const GroupNamed&) = default;
};
// Ids of checkpoints up to this one may be in use. Synced before anything of the checkpoint is made.
struct CheckpointBegun {
  uint64_t id = 0;
  friend bool operator==(const CheckpointBegun&, const CheckpointBegun&) = default;
};
// `lanes: auto`: the rounds from a step on have so many lanes, without backups. It replaces all such records
// of this step and later ones. Synced before the first of these rounds.
struct LanesSet {
  uint64_t first_step = 0;
  uint32_t lanes = 1;
  friend bool operator==(const LanesSet&, const LanesSet&) = default;
};
// What commands have set. The last one counts, and a truncated journal keeps it. On disk before the command
// is answered.
struct ScaleSet {
  WorkerRange workers;
  uint32_t servers = 0;
  bool paused = false;  // no new leases
  // Stepped strategies, while paused: nothing of the rounds from this step on has been leased.
  uint64_t begun = 0;
  friend bool operator==(const ScaleSet&, const ScaleSet&) = default;
};
// Other coordinators have copies of this journal in directories of their own. A coordinator does not go on
// with it unless the members elect it (standby/).
struct JournalAgreed {
  std::vector<NodeId> electors;  // ascending: who elects from here on; the last such record was agreed
  friend bool operator==(const JournalAgreed&, const JournalAgreed&) = default;
};
// Predictions: the number of publishing groups. Partition p belongs to group p % groups. Synced before the
// first cut, and the same as long as there is the job. A job with cuts and without this record has a group
// for each partition.
struct PublishersGrouped {
  uint32_t groups = 1;
  friend bool operator==(const PublishersGrouped&, const PublishersGrouped&) = default;
};
using JournalRecord = std::variant<CutsMade, StreamStart, IdsReserved, RoundMade, RateRaised, LabelsMarked,
                                   MemberJoined, MembersLeft, SlicesPlaced, GroupNamed, CheckpointBegun,
                                   LanesSet, ScaleSet, JournalAgreed, PassesPlanned, PublishersGrouped>;

// Removes the marks that no cut from `watermark` on needs (by partition). The last mark of each partition
// stays: the stream goes on behind it.
void DropMarksBefore(const std::vector<Position>& watermark, std::vector<JournalRecord>* records);
// Removes what the next coordinator does not need to know about members, slices, groups and checkpoints:
// former members, and what later records replace.
void DropReplaced(std::vector<JournalRecord>* records);
// Removes the LanesSet that hold for no round in `records`. The last one stays: the next round has its lanes.
void DropUnusedLanes(std::vector<JournalRecord>* records);

struct ManifestShard {
  std::string file;
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // as ShardReport::checksum
  std::vector<SliceIncarnation> slices;
  friend bool operator==(const ManifestShard&, const ManifestShard&) = default;
};

// A hash of the last record before an offset of a partition (stream::Source::Fingerprint).
struct Fingerprint {
  uint64_t offset = 0;
  uint64_t hash = 0;  // 0: unknown
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// A complete checkpoint: exactly one copy of each slice.
struct Manifest {
  uint64_t id = 0;
  std::string directory;  // "checkpoint-000007", below the job's directory
  // recorded before the first slice was saved: every slice contains all events before it
  std::vector<Position> watermark;
  std::vector<Cut> open;                  // cuts made by then that the watermark does not cover
  std::vector<Fingerprint> fingerprints;  // by partition, at or before the watermark; empty: none are known
  std::vector<ManifestShard> shards;
  uint64_t step = 0;    // stepped strategies: the version of all saved slices
  uint64_t events = 0;  // the minimum over all slices
  uint64_t next_incarnation = 1;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// The state from which a job is resumed.
struct RecoveredState {
  std::optional<Manifest> manifest;    // the newest complete one that is not damaged
  std::vector<JournalRecord> journal;  // at least all records since the manifest
  uint64_t last_checkpoint = 0;        // ids up to this one are taken, by damaged checkpoints, too
  // The watermark of the oldest complete checkpoint: the stream and the journal reach back to it.
  std::vector<Position> oldest_watermark;
};

// The beginning of the message for a damaged checkpoint that was passed over. The reason why the one before
// it is not used either follows.
std::string PassedOver(const Status& why);

// ---- actions
struct Reply {
  uint64_t call = 0;
  ControlReply reply;
};
struct AppendJournal {  // append and sync; OnReplaced if another coordinator has sealed the journal before
  JournalRecord record;
};
// No record, but the following actions need to know that the journal has no seal; OnReplaced if it has one.
struct ConfirmTerm {};
struct PrepareCheckpoint {  // make the directory; answer OnCheckpointPrepared
  uint64_t id = 0;
  uint64_t bytes = 0;               // an estimate of its size
  std::vector<Position> watermark;  // as of now
};
struct CommitManifest {  // write, sync and rename, the manifest last; answer OnManifestCommitted
  Manifest manifest;
};
struct DropCheckpoints {  // remove checkpoints older than this id; the journal may drop records before
                          // `watermark`
  uint64_t oldest_kept = 0;
  std::vector<Position> watermark;  // of the oldest kept one, or where predictions are still to be published
};
struct RemoveCheckpoint {  // remove one that was given up
  uint64_t id = 0;
};
// Slices cannot be restored from a checkpoint. Read all of it; if it is damaged (kDataLoss), and there is one
// before it, keep it aside and publish that one. Answer OnCheckpointVerified.
struct VerifyCheckpoint {
  uint64_t id = 0;
  std::optional<Manifest> before;  // the one that takes its place
};
struct JobEnded {
  Status status;          // ok: finished, or stopped on demand; kStale: another coordinator goes on with it
  bool finished = false;  // every event of the stream is in the newest checkpoint
  MembersLeft left;  // append it if that is possible, so that the next coordinator does not wait for them
};
using CoordinatorAction = std::variant<Reply, AppendJournal, ConfirmTerm, PrepareCheckpoint, CommitManifest,
                                       DropCheckpoints, RemoveCheckpoint, VerifyCheckpoint, JobEnded>;
using CoordinatorActions = std::vector<CoordinatorAction>;

// The current contents of a partition, as found by the shell.
struct StreamRange {
  uint32_t partition = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool sealed = false;
  // Late labels: the marks after the last one that the coordinator has (Coordinator::label_marks), in order.
  // Marks that it has may be repeated; others before the last one are kDataLoss and end the job.
  std::vector<LabelMark> marks = {};
};

// Late labels: where the marks of a partition go on.
struct LabelMarksWanted {
  std::optional<LabelMark> last;  // the last one that the coordinator has; after a restart, of the journal
  uint64_t room = 0;              // how many more it takes at present; more end the job
};

struct CoordinatorStatus {
  enum class Phase : uint8_t {
    kWaitingForServers,
    kWaitingForWorkers,  // all-reduce: workers hold the slices
    kRunning,
    kPaused,  // by AdminRequest::kPause, or CoordinatorConfig::pause_at is reached
    kStopping,
    kEnded
  } phase = Phase::kWaitingForServers;
  uint64_t term = 0;
  View view;
  uint64_t events = 0;  // applied by every slice, since the job was created
  uint64_t lag = 0;     // available events that are not below the watermark
  std::vector<Position> watermark;
  std::vector<uint64_t> ends;     // of the partitions, as of now
  bool finished = false;          // every slice has every event of every epoch
  uint64_t leases = 0;            // currently held by workers
  uint64_t regranted_leases = 0;  // leases granted again after a worker or server was lost
  uint64_t overdue_leases = 0;    // since the start
  std::vector<NodeId> stuck;      // members that are alive and do nothing
  // Likewise processes that have been evicted, and have not joined again.
  struct Evicted {
    Member member;  // that it was
    std::string host;
    int64_t pid = 0;
  };
  std::vector<Evicted> stuck_evicted;
  // Workers and the servers that they cannot reach.
  std::vector<std::pair<NodeId, NodeId>> unreachable;
  uint64_t step = 0;    // stepped strategies: reached by every slice
  uint32_t lanes = 0;   // of the next round, without backups
  uint64_t rounds = 0;  // since the start
  uint64_t late = 0;    // runs that missed their step and are trained in another
  float rate = 1;       // factor on the learning rate of the next cuts; the highest of all partitions
  uint64_t evictions = 0;
  // The last members that are gone, at most kDepartures, oldest first.
  struct Departure {
    uint64_t number = 0;  // counts all departures since the start, from 1 on
    Member member;        // that it was
    enum class How : uint8_t {
      kLeft,    // in order
      kLost,    // its process has ended, or another one has its place
      kEvicted  // it was silent, or held up others
    } how = How::kLeft;
  };
  static constexpr size_t kDepartures = 32;
  std::vector<Departure> departures;
  uint64_t failed_checkpoints = 0;  // failed since the start: a lost server, a disk error or a deadline
  std::string checkpoint_failure;   // why the last one failed; empty after a success
  std::string waiting_for;          // what keeps the job from ending, or from training; empty: nothing
  struct Predictions {
    uint64_t published = 0;  // offsets, from where the job began to read
    uint64_t behind = 0;     // offsets that every slice has, and that are not published
    uint64_t rescored = 0;   // published with scores that were made again, as far as is known
  };
  std::optional<Predictions> predictions;  // none: the job publishes none
  std::optional<uint64_t> unlabelled;      // late labels: events in the stream that wait for their labels
  std::optional<uint64_t> checkpoint;      // newest durable one
  std::string checkpoint_directory;
  // Slices that move between servers.
  struct Moves {
    uint64_t planned = 0;                        // slices that are still to be moved
    uint64_t slices = 0, bytes = 0, failed = 0;  // since the start: moved, their values, moves given up
    std::vector<NodeId> draining;                // servers that leave once they hold none
  } moves;
  // The numbers of members that are wanted.
  struct Wanted {
    WorkerRange workers;  // as the job or a command has set them
    // Of a range, what the autoscaler has chosen, and why; 0: not known yet. Both are filled in by the shell.
    uint32_t chosen = 0;
    std::string reason;
    uint32_t servers = 0;
    std::string hook_failure;  // the hook has not been told; filled in by the shell
    // Workers; 0: not known yet.
    uint32_t now() const { return workers.fixed() ? workers.least : chosen; }
  } wanted;
  // The most workers and servers that a pool lets the job have at present.
  struct Grant {
    uint32_t workers = 0, servers = 0;
    friend bool operator==(const Grant&, const Grant&) = default;
  };
  std::optional<Grant> grant;  // none: no pool has said
  // Members that say where they are, or whose round trip to the coordinator is known.
  struct Whereabouts {
    NodeId node;
    topology::HostPlace place;
    Duration round_trip{};  // 0: unknown
  };
  std::vector<Whereabouts> whereabouts;
  // One line for each rule of places that does not hold, by what it is about: replicas in one zone, a member
  // that is too far away, a class that no host offers.
  std::map<std::string, std::string> misplaced;
  uint32_t replicas = 1;    // CoordinatorConfig::replicas
  uint64_t replicated = 0;  // slices that have a replica at present
  // How many of them are on one server (first) with their replica on another.
  std::map<std::pair<NodeId, NodeId>, uint64_t> replica_servers;
  // The checkpoint that is being made.
  struct Saving {
    uint64_t id = 0;
    std::string directory;    // empty: not made yet
    std::string waiting_for;  // "the shards of ps 0, ps 3"
    Duration limit{};         // it is given up if it waits for servers and disks for longer in all
    uint64_t bytes = 0;       // in the directory; filled in by the shell
  };
  std::optional<Saving> saving;
};

class Coordinator {
 public:
  // Throws std::invalid_argument if the restored state contradicts itself or the job.
  Coordinator(CoordinatorConfig config, RecoveredState restored);
  ~Coordinator();

  // Handles all requests except StatusRequest, which the shell answers from status(). Each call gets one
  // Reply, possibly later. An invalid request gets a Refusal.
  CoordinatorActions OnRequest(Time now, uint64_t call, const ControlRequest& request);
  CoordinatorActions OnStream(Time now, const std::vector<StreamRange>& ranges);
  // Reports that the process has ended, so its heartbeats need not be waited for.
  CoordinatorActions OnNodeLost(Time now, NodeId node);
  CoordinatorActions OnCheckpointPrepared(Time now, uint64_t id, Result<CheckpointOrder> order);
  CoordinatorActions OnManifestCommitted(Time now, uint64_t id, const Status& status);
  CoordinatorActions OnCheckpointVerified(Time now, uint64_t id, const Status& status);
  // Predictions that the coordinator's process publishes, with its own feed (CoordinatorConfig::feeds).
  CoordinatorActions OnPublishers(Time now, const std::vector<PublisherReport>& reports);
  std::vector<PublisherOrder> publisher_orders() const;
  // By partition; empty without late labels. The shell asks the stream for these marks and no others.
  std::vector<LabelMarksWanted> label_marks() const;
  // An alarm: raises the learning rate for a while, as configured.
  CoordinatorActions OnDrift(Time now);
  // Another coordinator has taken over: this one ends, and nothing that it has not done yet may be done.
  CoordinatorActions OnReplaced(const Status& why);
  // The member is to leave: the answer to its next heartbeat says so, and it gets no more leases. Returns why
  // that is impossible.
  Status Drain(Time now, NodeId node);
  // Of a range of workers, how many the autoscaler has chosen; 0: not known yet.
  void SetChosen(uint32_t workers);
  CoordinatorActions OnTimer(Time now);
  Time next_timer() const;

  CoordinatorStatus status() const;
  // The members of the former coordinator that this one has taken over.
  const std::vector<MemberJoined>& taken_over() const;

  // ---- servers that join and leave
  // The server hands its slices over to the others, and then leaves. An error says in one line why it does
  // not.
  Status DrainServer(Time now, NodeId server);
  // Says in one line why the job cannot have this number of servers; ok if it can.
  Status CanScaleServers(uint32_t servers) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::protocol

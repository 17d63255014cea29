// The coordinator as a state machine: the view, cuts and leases, checkpoints, the end of the job.
//
// It uses no sockets, threads, files or clock. Every input returns actions that the shell executes in order:
// a Journal record must be on disk before the Reply after it is sent. Not thread-safe.
//
// Its only source about progress is the servers' ledgers (docs/protocol/push.md). Cuts are kept from the
// watermark of the oldest kept checkpoint on, so that older slices can be trained again.
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
#include "protocol/leases/lease_pace.h"
#include "protocol/leases/stream_range.h"
#include "protocol/messages_control.h"
#include "protocol/placement.h"
#include "protocol/predictions/publications.h"
#include "protocol/records/recovered_state.h"
#include "protocol/strategy.h"
#include "protocol/topology/near_partitions.h"
#include "protocol/topology/topology_settings.h"

namespace leat::protocol {

// The bytes per second at which every checkpoint can be saved.
inline constexpr uint64_t kSlowestDisk = 4 << 20;

struct CoordinatorConfig {
  SliceTable table;
  Placement placement;
  uint32_t servers = 1;  // required before slices are placed
  // At most so many hold slices; further ones are spares. Slices move to servers that join later. 0: as many
  // as `servers`.
  uint32_t max_servers = 0;
  // 2: each slice also has a replica on another server, as long as there is one.
  uint32_t replicas = 1;
  uint32_t workers = 1;  // workers when the job starts; MPI: all its workers
  StrategyConfig strategy;
  CutRules cuts;
  std::vector<uint32_t> partitions;  // numbers of the stream's partitions: 0, 1, …
  Duration heartbeat_interval = std::chrono::milliseconds(500);
  Duration heartbeat_timeout = std::chrono::seconds(2);
  // An overdue lease is granted a second time. All-reduce: an overdue member leaves the job.
  LeaseLimits leases;
  // A role that is alive, but has finished no kernel and sent no heartbeat for this long, is stuck.
  Duration stuck_timeout = std::chrono::minutes(15);
  Duration checkpoint_interval{0};  // 0: only at the end and on demand
  // Limit for a checkpoint, in addition to the time that its bytes take at kSlowestDisk. The end of the job
  // waits three times as long for servers that hold the trained state.
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
  std::optional<RateRaise> raise;  // the raise of the learning rate by OnDrift
  uint32_t keep_checkpoints = 2;
  // The predictions of each event are published by feeds, and no cut begins while this many events of all
  // partitions together are cut and not published. 0: the job publishes none.
  uint64_t max_unpublished = 0;
  uint32_t publishing_groups = 8;  // limit for a job that begins
  // Labels come on a topic of their own, later than the events, and cuts reach up to the last label mark
  // only. Needs cuts.epochs = 1.
  bool late_labels = false;
  // This coordinator's term: higher than those of all former ones of this run (MakeTerm). 0: in tests with a
  // single coordinator.
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
  std::vector<std::string> feeds;  // addresses of the feeds in the coordinator's process
  // The coordinator's program and job. Processes with other values are rejected. Empty and 0: not compared.
  std::string version;
  uint64_t job_hash = 0;
  uint64_t network = 0;  // the coordinator's network, as JoinRequest::network; 0: unknown
  topology::TopologySettings topology;
  // By partition; empty: not known. Workers prefer the splits of partitions near them.
  std::vector<topology::PartitionPlaces> partition_places;
};

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
  // Position of the oldest kept checkpoint, or of predictions that are still to be published.
  std::vector<Position> watermark;
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
  std::vector<uint64_t> ends;     // ends of the partitions, as of now
  bool finished = false;          // every slice has every event of every epoch
  uint64_t leases = 0;            // currently held by workers
  uint64_t regranted_leases = 0;  // leases granted again after a worker or server was lost
  uint64_t overdue_leases = 0;    // since the start
  std::vector<NodeId> stuck;      // members that are alive and do nothing
  // Stuck processes that have been evicted and have not joined again.
  struct Evicted {
    Member member;  // the member as it was
    std::string host;
    int64_t pid = 0;
  };
  std::vector<Evicted> stuck_evicted;
  // Workers and the servers that they cannot reach.
  std::vector<std::pair<NodeId, NodeId>> unreachable;
  uint64_t step = 0;    // stepped strategies: reached by every slice
  uint32_t lanes = 0;   // lanes of the next round, without backups
  uint64_t rounds = 0;  // since the start
  uint64_t late = 0;    // runs that missed their step and are trained in another
  float rate = 1;       // factor on the learning rate of the next cuts; the highest of all partitions
  uint64_t evictions = 0;
  // The last members that are gone, at most kDepartures, oldest first.
  struct Departure {
    uint64_t number = 0;  // counts all departures since the start, from 1 on
    Member member;        // the member as it was
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
  std::string waiting_for;          // reason why the job does not end, or does not train; empty: none
  std::optional<PublishedPredictions> predictions;  // none: the job publishes none
  std::optional<uint64_t> unlabelled;  // late labels: events in the stream that wait for their labels
  std::optional<uint64_t> checkpoint;  // newest durable one
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
    // The autoscaler's choice from a range, and why; 0: not known yet. Both are filled in by the shell.
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
  // A line for each rule of places that does not hold, by what it is about: replicas in one zone, a member
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

LEAT_ENUM(CoordinatorStatus::Phase, (kWaitingForServers, "waiting for servers"),
          (kWaitingForWorkers, "waiting for workers"), (kRunning, "running"), (kPaused, "paused"),
          (kStopping, "stopping"), (kEnded, "ended"));
LEAT_ENUM(CoordinatorStatus::Departure::How, (kLeft, "left"), (kLost, "lost"), (kEvicted, "evicted"));

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
  // Sets the number that the autoscaler has chosen from a range of workers; 0: not known yet.
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

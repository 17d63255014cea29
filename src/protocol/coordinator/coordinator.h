// The coordinator as a state machine: the view, cuts and leases, checkpoints, the end of the job.
//
// No socket, thread, file or clock inside. Every input returns actions that the shell carries out in their
// order: a Journal must be on disk before the Reply behind it is sent. Not thread-safe.
//
// What it knows of progress it learns from the servers' ledgers alone (docs/architecture.md: exactly once).
// Cuts are kept from the newest durable checkpoint's watermark on, so that older slices are fed again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/messages_control.h"
#include "protocol/placement.h"
#include "protocol/strategy.h"

namespace leat::protocol {

struct CoordinatorConfig {
  SliceTable table;
  Placement placement;
  uint32_t servers = 1;  // that must be there before slices are placed; more are spares
  uint32_t workers = 1;  // all-reduce: that the first group waits for, a while
  StrategyConfig strategy;
  CutRules cuts;
  std::vector<uint32_t> partitions;  // of the stream: 0, 1, …
  Duration heartbeat_interval = std::chrono::milliseconds(100);
  Duration heartbeat_timeout = std::chrono::seconds(5);
  Duration checkpoint_interval{0};  // 0: only at the end and on demand
  Duration checkpoint_timeout = std::chrono::seconds(60);
  // Slices of a lost server go to a spare one at once, else to the next one to join; after so long without
  // one, to the servers that are left.
  Duration server_wait = std::chrono::seconds(10);
  Duration tail_wait = std::chrono::milliseconds(200);  // a live tail that waited so long is cut short
  // Stepped strategies: steps that workers have leases of at a time, at the least. As many as are made in the
  // time that it takes servers to tell how far they are, and workers to ask for more.
  uint32_t open_steps = 128;
  // Stepped strategies: a lane that its worker has not come for in so long goes to any other.
  Duration lane_wait = std::chrono::milliseconds(500);
  uint32_t max_consecutive_rejected = 5;  // gradients that are not finite; then the job ends
  // No split is made once splits of this many events have been, until AdminRequest::kContinue. 0: no limit.
  uint64_t pause_at = 0;
  uint32_t keep_checkpoints = 2;
  std::string job;  // handed to whoever joins
  // Of the coordinator's own program and job: whoever has others is turned away. Empty and 0: not asked.
  std::string version;
  uint64_t job_hash = 0;
};

// ---- what survives the coordinator: the journal and the manifests
struct CutsMade {  // synced before any of them is leased
  std::vector<Cut> cuts;
};
// Stepped strategies: splits that are trained side by side, one for each lane, all with the same number of
// runs. Step first_step + k is made of the k-th run of each. Synced before any of it is leased; new cuts are
// known from here, without a CutsMade.
struct RoundMade {
  struct Lane {
    Cut cut;
    RunSet assigned;  // all of a new cut, or of a former round what was not in time
    friend bool operator==(const Lane&, const Lane&) = default;
  };
  uint64_t first_step = 0;
  uint32_t needed = 1;      // lanes that have to be in a step
  std::vector<Lane> lanes;  // lane = place
  friend bool operator==(const RoundMade&, const RoundMade&) = default;
};
struct StreamStart {  // where each partition begins: once, before the first cut
  std::vector<Position> start;
};
// Ids below these may have been given and are never given again: of nodes; of leases, incarnations and
// generations. A journal that is shortened keeps the last of these, and StreamStart.
struct IdsReserved {
  uint64_t node = 0;
  uint64_t lease = 0;
};
using JournalRecord = std::variant<CutsMade, StreamStart, IdsReserved, RoundMade>;

struct ManifestShard {
  std::string file;
  uint64_t bytes = 0;
  uint64_t checksum = 0;
  std::vector<SliceIncarnation> slices;
  friend bool operator==(const ManifestShard&, const ManifestShard&) = default;
};

// One complete checkpoint: exactly one copy of each slice.
struct Manifest {
  uint64_t id = 0;
  std::string directory;            // "checkpoint-000007", below the job's directory
  std::vector<Position> watermark;  // noted before the first slice was saved: all before it is in every slice
  std::vector<Cut> open;            // cuts made by then that the watermark does not cover
  std::vector<ManifestShard> shards;
  uint64_t step = 0;    // stepped strategies: the version at which all slices were saved
  uint64_t events = 0;  // fewest that any slice holds
  uint64_t next_incarnation = 1;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// What a job that is resumed starts from.
struct RecoveredState {
  std::optional<Manifest> manifest;    // the newest complete one
  std::vector<JournalRecord> journal;  // all records since it at least
};

// ---- actions
struct Reply {
  uint64_t call = 0;
  ControlReply reply;
};
struct AppendJournal {  // append and sync
  JournalRecord record;
};
struct PrepareCheckpoint {  // make the directory; answer OnCheckpointPrepared
  uint64_t id = 0;
};
struct CommitManifest {  // write, sync, rename, manifest last; answer OnManifestCommitted
  Manifest manifest;
};
struct DropCheckpoints {  // everything older than this id; the journal may forget what lies before
                          // `watermark`
  uint64_t oldest_kept = 0;
  std::vector<Position> watermark;  // of the oldest kept one
};
struct JobEnded {
  Status status;  // ok: finished or stopped on demand
};
using CoordinatorAction =
    std::variant<Reply, AppendJournal, PrepareCheckpoint, CommitManifest, DropCheckpoints, JobEnded>;
using CoordinatorActions = std::vector<CoordinatorAction>;

// What a partition of the stream holds now, as the shell has looked it up.
struct StreamRange {
  uint32_t partition = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool sealed = false;
};

struct CoordinatorStatus {
  enum class Phase : uint8_t {
    kWaitingForServers,
    kWaitingForWorkers,  // where they hold the slices
    kRunning,
    kPaused,  // CoordinatorConfig::pause_at is reached
    kStopping,
    kEnded
  } phase = Phase::kWaitingForServers;
  View view;
  uint64_t events = 0;  // applied by every slice, since the job was created
  uint64_t lag = 0;     // events there and not yet below the watermark
  std::vector<Position> watermark;
  bool finished = false;          // every slice holds every event of every epoch
  uint64_t leases = 0;            // out at present
  uint64_t regranted_leases = 0;  // leases given again after a worker or server was lost
  uint64_t step = 0;              // stepped strategies: that every slice has reached
  uint64_t rounds = 0;            // made since the start
  uint64_t late = 0;              // runs that were not in time for their step, and are trained in another
  uint64_t evictions = 0;
  uint64_t failed_checkpoints =
      0;  // given up since the start: a server was lost, or a disk or deadline failed
  std::optional<uint64_t> checkpoint;  // newest durable one
  std::string checkpoint_directory;
};

class Coordinator {
 public:
  // Throws std::invalid_argument when what was restored contradicts itself or the job.
  Coordinator(CoordinatorConfig config, RecoveredState restored);
  ~Coordinator();

  // StatusRequest is the shell's to answer (from status()); everything else comes here. One Reply follows for
  // each call, though not always at once. A request that makes no sense is answered with a Refusal.
  CoordinatorActions OnRequest(Time now, uint64_t call, const ControlRequest& request);
  CoordinatorActions OnStream(Time now, const std::vector<StreamRange>& ranges);
  // The runner knows that the process is gone: no need to wait for its heartbeats.
  CoordinatorActions OnNodeLost(Time now, NodeId node);
  CoordinatorActions OnCheckpointPrepared(Time now, uint64_t id, Result<CheckpointOrder> order);
  CoordinatorActions OnManifestCommitted(Time now, uint64_t id, const Status& status);
  CoordinatorActions OnTimer(Time now);
  Time next_timer() const;

  CoordinatorStatus status() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::protocol

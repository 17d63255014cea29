// What roles and the coordinator say to each other, as plain structs. control/ makes protobuf of them; the
// simulator passes them as they are.
//
// Receivers believe nothing: counts, ids and cuts are checked where they arrive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/shared.h"
#include "base/status.h"
#include "protocol/cut.h"
#include "protocol/ledger.h"
#include "protocol/slices.h"

namespace leat::protocol {

enum class Role : uint8_t { kCoordinator = 0, kServer = 1, kWorker = 2, kBots = 3 };
std::string_view Name(Role role);

struct Member {
  NodeId node;
  Role role = Role::kWorker;
  uint32_t index = 0;   // worker 0, 1, …: the lowest that is free
  std::string address;  // of its data plane, "127.0.0.1:40123"; empty when it has none
  friend bool operator==(const Member&, const Member&) = default;
};

struct SliceLocation {
  NodeId server;  // 0: nowhere at present
  Incarnation incarnation;
  bool live = false;  // the server has reported this incarnation: it answers
  friend bool operator==(const SliceLocation&, const SliceLocation&) = default;
};

// Who is in, and where the slices are. `generation` grows with every change.
struct View {
  Generation generation;
  std::vector<Member> members;
  std::vector<SliceLocation> slices;  // by slice id
  bool ready() const;                 // there are slices, and all are live
  const Member* Find(NodeId node) const;
  friend bool operator==(const View&, const View&) = default;
};

// Of a process that mpirun has started, among all that it has.
struct MpiRank {
  uint32_t rank = 0;
  uint32_t members = 0;
  friend bool operator==(const MpiRank&, const MpiRank&) = default;
};

struct JoinRequest {
  Role role = Role::kWorker;
  std::string version;  // of the program and of its protocols
  std::string address;  // of the data plane
  std::string host;
  int64_t pid = 0;
  uint64_t job_hash = 0;  // of the job that it was built for; 0: it has none yet
  std::optional<MpiRank> mpi;
};

struct JoinReply {
  Status status;
  NodeId node;
  uint32_t index = 0;
  std::string job;  // the whole job as YAML, resolved: what every role builds its parts from
  Duration heartbeat_interval{};
  Duration heartbeat_timeout{};  // silent for longer: evicted
};

// A split for a worker to train: the runs of `cut` that are in `missing`.
struct Lease {
  uint64_t id = 0;  // never given twice
  Cut cut;
  RunSet missing;
  // Stepped strategies: the split is one lane's part of a round. The k-th run of `assigned` belongs to step
  // first_step + k; `missing` is part of it.
  uint64_t first_step = 0;
  uint32_t lane = 0;
  uint32_t width = 1;
  uint32_t needed = 1;
  RunSet assigned;
  friend bool operator==(const Lease&, const Lease&) = default;
};

// Cumulative since the process started; whoever adds them up keeps the last of each node.
struct WorkerProgress {
  uint64_t steps = 0;
  uint64_t events = 0;   // scored and trained
  double loss_sum = 0;   // Σ over events, before training on them
  uint64_t correct = 0;  // classification: arg max was the label
  uint64_t rejected_batches = 0;
  uint64_t dead_letters = 0;
  double cpu_seconds = 0;
  double wait_seconds = 0;  // for servers
  // metrics::AucCounts, encoded: of the model's scores, and of the known probability. Empty when the job has
  // none. Whoever reads them decodes and checks; to the protocol they are bytes.
  Bytes scores, true_scores;
  std::string last_dead_letter;  // "partition 3 offset 991: amount: 'abc' is not a number"
};

struct SliceIncarnation {
  SliceId slice;
  Incarnation incarnation;
  friend auto operator<=>(const SliceIncarnation&, const SliceIncarnation&) = default;
};

// A run whose gradient was not finite.
struct RejectedRun {
  NodeId worker;
  Cut cut;
  uint32_t run = 0;
  friend bool operator==(const RejectedRun&, const RejectedRun&) = default;
};

// One server's file of a checkpoint, written and synced.
struct ShardReport {
  uint64_t checkpoint = 0;
  Status status;
  std::string file;  // in the checkpoint's directory
  uint64_t bytes = 0;
  uint64_t checksum = 0;
  std::vector<SliceIncarnation> slices;
  friend bool operator==(const ShardReport&, const ShardReport&) = default;
};

// A slice that a server is to hold: made anew, or read from a checkpoint's file.
struct SliceOrder {
  SliceId slice;
  Incarnation incarnation;
  std::string directory;  // of the checkpoint; empty: initial values, empty ledger
  std::string file;
  uint64_t file_checksum = 0;
  friend bool operator==(const SliceOrder&, const SliceOrder&) = default;
};

struct CheckpointOrder {
  uint64_t id = 0;
  std::string directory;  // there, and writable
  uint64_t version = 0;   // stepped strategies: each slice is saved as it is at this version
  friend bool operator==(const CheckpointOrder&, const CheckpointOrder&) = default;
};

// All-reduce (group_coordinator.h says how it goes): workers that make steps among themselves.
struct Group {
  uint64_t id = 0;              // never given twice; the later one has the larger id
  std::vector<Member> members;  // rank = place
  // What it starts from. Decided once every member has said, under this id, what it holds.
  bool decided = false;
  uint64_t step = 0;  // all go on from the state at this step
  NodeId holder;      // who has it; 0: nobody, and all make it from `orders`
  std::vector<SliceOrder> orders;
  friend bool operator==(const Group&, const Group&) = default;
};

// All-reduce: what a row of steps is made of, for all lanes. Step first_step + k is made of the k-th run of
// each lane's `assigned`.
struct Round {
  struct Lane {
    Cut cut;
    RunSet assigned;
    friend bool operator==(const Lane&, const Lane&) = default;
  };
  uint64_t first_step = 0;
  std::vector<Lane> lanes;  // lane = place; all with the same number of runs
  uint64_t end() const { return first_step + (lanes.empty() ? 0 : lanes.front().assigned.count()); }
  friend bool operator==(const Round&, const Round&) = default;
};

// All-reduce: what a worker says of the copy of all slices that it keeps.
struct MemberReport {
  uint64_t group = 0;      // the newest that it has taken up: it has no part in any step of an earlier one
  bool holds = false;      // it has a state, at `step`
  bool connected = false;  // in `group`, to whom it exchanges with
  uint64_t step = 0;       // steps completed
  uint64_t events = 0;     // good records in them
  std::vector<PartitionLedger> partitions;
  uint64_t rounds_until = 0;         // it knows the rounds of all steps before this one
  std::string failure;               // why it cannot go on in `group`; empty: it can
  std::optional<ShardReport> shard;  // repeated until a newer checkpoint is ordered
  // Steps in a row that were not finite, up to now, and a run of the last of them.
  uint32_t consecutive_rejected = 0;
  std::optional<RejectedRun> rejected;
  uint64_t skipped = 0;  // steps that were noted and not applied
  friend bool operator==(const MemberReport&, const MemberReport&) = default;
};

struct WorkerHeartbeat {
  NodeId node;
  Generation generation;  // of the view it has
  // Splits that it has room for. Stepped strategies: rounds that it has room for beyond those it holds parts
  // of; free parts of these rounds and of earlier ones it takes whatever is said here, since it waits for
  // them.
  // In stepped strategies only whether there are any counts, or leases held: the worker then gets its lanes
  // of the rounds under way, however many.
  uint32_t leases_wanted = 0;
  std::vector<uint64_t> held;      // leases it works on: what isn't here is no longer its own
  std::vector<uint64_t> released;  // ended since the last answered heartbeat, finished or given up
  bool leaving = false;
  WorkerProgress progress;
  std::optional<MemberReport> member_report;  // all-reduce
};

struct WorkerHeartbeatReply {
  bool evicted = false;  // join again, as a new node
  bool stop = false;     // the job is over: leave
  Shared<View> view;     // when newer than the one it has
  std::vector<Lease> leases;
  std::vector<uint64_t> revoked;  // of `held`: drop them
  // All-reduce.
  std::optional<Group> group;                 // the newest that it is in
  std::vector<Round> rounds;                  // from MemberReport::rounds_until on, in order
  std::vector<Position> start;                // where each partition starts
  std::optional<CheckpointOrder> checkpoint;  // the newest one, until it is reported
  friend bool operator==(const WorkerHeartbeatReply&, const WorkerHeartbeatReply&) = default;
};

// Slices whose ledgers are equal, as most are most of the time.
struct LedgerReport {
  std::vector<SliceIncarnation> slices;
  uint64_t events = 0;  // fewest that any of them has applied
  std::vector<PartitionLedger> partitions;
  uint64_t version = 0;  // lowest of any of them: stepped strategies go on with this step
  friend bool operator==(const LedgerReport&, const LedgerReport&) = default;
};

struct ServerProgress {
  uint64_t pushes = 0;
  uint64_t pulls = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t bytes_held = 0;          // values and slots
  uint64_t duplicates = 0;          // batches that the ledger turned away
  std::vector<uint64_t> staleness;  // histogram: staleness s of applied slices, last bin = that and more
  uint64_t staleness_sum = 0, staleness_count = 0;
  double cpu_seconds = 0;
  uint64_t skipped = 0;  // runs (stepped: steps) that were noted and not applied, since not all was finite
};

struct ServerHeartbeat {
  NodeId node;
  Generation generation;
  std::vector<LedgerReport> ledgers;     // all slices that live here
  std::vector<SliceIncarnation> failed;  // orders that could not be carried out
  std::string failure;                   // why, of the first of them
  std::optional<ShardReport> shard;      // repeated until a newer checkpoint is ordered
  bool leaving = false;
  // Runs (stepped: steps) in a row that were not finite, up to now, and the last of them.
  uint32_t consecutive_rejected = 0;
  std::optional<RejectedRun> rejected;
  ServerProgress progress;
};

struct ServerHeartbeatReply {
  bool evicted = false;
  bool stop = false;
  Shared<View> view;
  std::vector<Position> start;                // where each partition starts, for slices that are made anew
  std::vector<SliceOrder> orders;             // all slices that belong here: others are dropped
  std::optional<CheckpointOrder> checkpoint;  // the newest one, until it is reported
};

struct BotsHeartbeat {
  NodeId node;
  uint64_t published = 0;
  bool done = false;
  double cpu_seconds = 0;
};
struct BotsHeartbeatReply {
  bool evicted = false;
  bool stop = false;
};

struct StatusRequest {
  bool with_view = true;
};

// For people and programs: `leat status`, the progress line, the summary.
struct StatusReply {
  std::string json;  // made by the shell of the coordinator
};

struct AdminRequest {
  enum class Kind : uint8_t {
    kCheckpoint = 0,
    kStop = 1,      // checkpoint, then end the job
    kNodeLost = 2,  // whoever started the process has seen it end: no need to wait for its heartbeats
    kContinue = 3,  // past CoordinatorConfig::pause_at
  } kind = Kind::kStop;
  NodeId node;  // kNodeLost
};
struct AdminReply {
  Status status;
};

// Said when a message cannot be taken at all.
struct Refusal {
  Status status;
};

using ControlRequest =
    std::variant<JoinRequest, WorkerHeartbeat, ServerHeartbeat, BotsHeartbeat, StatusRequest, AdminRequest>;
using ControlReply = std::variant<Refusal, JoinReply, WorkerHeartbeatReply, ServerHeartbeatReply,
                                  BotsHeartbeatReply, StatusReply, AdminReply>;

}  // namespace leat::protocol

// A whole job in one thread: the unmodified coordinator, servers and workers of protocol/, with a virtual
// clock, network and disk.
//
// Links have a bandwidth and a latency, computation times are random, and servers need time for every byte.
// Faults happen at random or by plan: messages are delayed, lost and duplicated; processes pause, die, leave
// and are replaced; the coordinator crashes between any two of its actions and restarts from its journal; the
// job is stopped and resumed with another number of servers; and the stream grows meanwhile.
//
// A run is a pure function of its options, workload and hooks: one seed, one thread, no real clock. This
// folder makes no protocol decisions: it executes the machines' actions and reports the results.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fields/fields.h"
#include "base/status.h"
#include "compute/optim/optimizer.h"
#include "lab/sim/events/distribution.h"
#include "lab/sim/hosts/link_queue.h"
#include "lab/sim/invariants.h"
#include "lab/sim/workload.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/server/server.h"
#include "protocol/worker/worker.h"

namespace leat::sim {

class Disk;

struct Faults {
  // Probabilities for each message of the data plane and each call of the control plane, per direction. Among
  // the members of a group they are a hundredth of that, because one lost message ends the group.
  double lost = 0;
  double duplicated = 0;  // a push arrives a second time, at any later time
  double slow = 0;        // takes up to seconds
  double split_unreadable = 0;
  double crash_between_actions = 0;  // per action of the coordinator
  double server_deaths = 0;          // share of all deaths
  double full_disk = 0;              // a write fails
  double unreadable = 0;             // a slice cannot be read from a checkpoint
  double damaged = 0;                // a checkpoint is damaged once it is complete
  double cut_pairs = 0;              // share of the faults that cut a worker from a server for some time
  double isolations = 0;             // share of faults that cut a process from all others or the coordinator
  double slow_links = 0;             // share of the processes that start with a link of 10 to 200 kB/s
  double deaths_in_pushes = 0;       // at each DeathPoint of a push
  double deaths_in_checkpoints = 0;  // at each DeathPoint of a checkpoint
  // Deaths of a process that takes part in a move of slices, or of the coordinator, at each point of the
  // move.
  double deaths_in_moves = 0;
  // Deaths of the server of a slice or of its replica, at each point of a forwarded push.
  double deaths_in_forwards = 0;
  Duration slow_disk{0};  // maximum duration of a write
  // Maximum of a quarter of the pauses, in place of 2.5 s, and of all pauses of coordinators with directories
  // of their own. 0: none
  Duration longest_pause{0};
  Duration longest_cut{0};     // maximum duration of an isolation
  Duration fault_interval{0};  // mean time between deaths, pauses and stops; 0: none
  Time until{0};               // end of all faults
};

// A fault at a fixed time.
struct PlannedFault {
  enum class What : uint8_t {
    kKill = 0,
    kPause = 1,
    kLeave = 2,
    kStart = 3,
    kDrain = 4,     // the coordinator tells a worker to leave
    kCutOff = 5,    // from the coordinator
    kPauseJob = 6,  // a command, until another one continues it
  } what = What::kKill;
  Time at{0};
  protocol::Role role = protocol::Role::kWorker;
  // Among the live processes of the role, in the order of their start. kCoordinator: the address, 0 or 1, at
  // which the next one starts.
  uint32_t index = 0;
  Duration lasts{0};      // kPause, kCutOff, kPauseJob; kKill of the coordinator: until the next one starts
  bool replaced = false;  // kKill: a replacement starts a second later
  bool standby = false;   // kStart: a worker that stands by
};

// The named points of a push and of a checkpoint, and who dies there.
enum class DeathPoint : uint8_t {
  kBeforePush = 0,      // a worker that has computed a run
  kPushed = 1,          // a worker whose push is on its way
  kBeforeApply = 2,     // a server that has received a push
  kApplied = 3,         // a server that has applied it, and has acknowledged nothing
  kBeforeShard = 4,     // a process that is told to save a shard
  kShardSaved = 5,      // a process that has saved it, before anyone knows
  kBeforeManifest = 6,  // the coordinator, when all shards are saved
  kManifestSaved = 7,   // the coordinator, when the checkpoint is complete, before anyone knows
};
constexpr size_t kDeathPoints = 8;
LEAT_ENUM(DeathPoint, (kBeforePush, "before a push"), (kPushed, "after a push has left"),
          (kBeforeApply, "before a push is applied"), (kApplied, "between apply and acknowledgement"),
          (kBeforeShard, "before a shard is saved"), (kShardSaved, "after a shard is saved"),
          (kBeforeManifest, "before a checkpoint is complete"),
          (kManifestSaved, "after a checkpoint is complete"));

// The named points of a move of slices between two servers.
enum class MovePoint : uint8_t {
  kOrdered = 0,   // the server that has the slices begins to connect
  kFrozen = 1,    // it sends them, and takes no pushes to them any more
  kArrived = 2,   // the other server has them, and nobody else knows
  kMade = 3,      // the coordinator has decided, and the other server goes on with them
  kReleased = 4,  // the first server knows
};
enum class MovePart : uint8_t { kFrom = 0, kTo = 1, kCoordinator = 2 };

// A death when the first move comes to a point.
struct MoveDeath {
  MovePoint point = MovePoint::kOrdered;
  MovePart who = MovePart::kFrom;
};

// The named points of a push to a slice with a replica.
enum class ForwardPoint : uint8_t {
  kApplied = 0,       // the primary has it, and has not forwarded it
  kForwarded = 1,     // it is on its way to the replica
  kTaken = 2,         // the replica has it, and the primary does not know
  kAcknowledged = 3,  // the primary knows, and has not answered the worker
};

// Which server dies at the first push from a time on that comes to a point, once all slices have replicas.
struct ForwardDeath {
  ForwardPoint point = ForwardPoint::kApplied;
  bool primary = true;  // else that of the replica
  Time from{0};
};

// A machine, with the link that all its processes share. Messages between them do not use the link.
struct Host {
  Link link;
  double speed = 1;   // speed of a core, relative to the machine where the times were measured
  double cores = 0;   // 0: as many as its processes have threads
  uint32_t zone = 0;  // index in ClusterOptions::zones
  topology::HostPlace place = {};
};

// The time that a process's thread needs for a message.
struct MessageCost {
  Duration message{0};
  double byte = 0;  // seconds
  Duration Of(uint64_t bytes) const {
    return message + Duration(static_cast<int64_t>(byte * 1e9 * static_cast<double>(bytes)));
  }
};

// Splits that workers read from elsewhere: a feed, a broker, a file server.
struct Input {
  Link link;               // link of the source, which all workers share
  double event_bytes = 0;  // 0: splits are on the worker's host
  double decode = 0;       // seconds per event, on a thread of its own
};

// Processes die at random, each after this time on average, and start again on the same host.
struct Deaths {
  Duration mean_time_between{0};  // 0: none
  Duration restart{0};
};

// Each partition [first, first + events) of the stream grows evenly from empty during `takes`.
struct StreamPlan {
  struct Partition {
    uint64_t first = 0;
    uint64_t events = 0;
  };
  std::vector<Partition> partitions;
  Duration takes{0};
  // The labels come on a topic of their own, and are marked up to this much later than the events. 0: they
  // come with the events.
  Duration late_labels{0};
};

// How the members of a group reduce (protocol/allreduce/reduction.h), as in step/ and collective/.
struct ReduceOptions {
  uint64_t bucket_bytes = 1 << 20;     // minimum; whole variables
  uint64_t exchange_bytes = 64 << 10;  // buckets up to this size use the exchange
  uint64_t piece_bytes = 256 << 10;
  uint64_t eager_bytes = 1 << 20;
  // in groups of up to protocol::kMaxOneShotMembers, unless the strategy is deterministic
  bool one_shot = false;
};

// The coordinator's configuration, and the world around it. The cluster itself sets what depends on the
// stream (partitions, late_labels) and on the coordinators before this one (term, take_over, keep_scale).
struct ClusterOptions : protocol::CoordinatorConfig {
  ClusterOptions() {
    placement = protocol::Placement::kGreedy;
    heartbeat_interval = std::chrono::milliseconds(100);  // for busy roles; here all are
  }

  uint64_t seed = 1;
  // Where the first, second, … server process is, if there are no `hosts`; further ones start again with the
  // first place. Empty: it is not known.
  std::vector<topology::HostPlace> server_places;
  uint32_t standby = 0;    // workers that stand by; so do then all that replace a worker
  uint32_t followers = 0;  // members that follow the parameters, and how often
  Duration refresh = std::chrono::milliseconds(100);
  // Standby coordinators, each on a host of its own with its own directory. 0: coordinators share a
  // directory.
  uint32_t coordinator_standbys = 0;
  optim::OptimizerConfig optimizer;
  StreamPlan stream;

  // Outgoing bytes queue at the sender in the order of sending, incoming ones at the receiver in the order of
  // arrival. The coordinator's messages have only the latency.
  Link server_link, worker_link;
  // Where all workers wait for the same step (sync, averaging), messages leave at the same time, and their
  // connections take turns on a link, with about so many bytes: a kernel takes only one or two buffers of
  // 64 KiB of a connection into its queue (TCP small queues). A message has about kMostWindows at most, and
  // its share of the link varies at random by half. Other workers send whole messages: taking turns would
  // bring them into step with each other, which real ones are not.
  uint64_t window = 96 << 10;
  static constexpr uint64_t kMostWindows = 32;
  // The machines, and on which of them the first, second, … process of a role runs; further ones start again
  // with the first host. Empty: each process has a machine of its own, with the link of its role.
  std::vector<Host> hosts;
  std::vector<uint32_t> server_hosts, worker_hosts;
  // The link between a rack or data centre and all others; its latency adds to that of hosts. Empty: all
  // hosts are on one switch.
  std::vector<Link> zones;
  Duration local_latency = std::chrono::microseconds(10);  // within a host
  double jitter = 0;  // each message's latency grows by up to this fraction
  Distribution compute;
  uint32_t compute_threads = 1;
  // The part of a batch's time before the first gradients are known. The rest is divided among the variables,
  // the last ones first, in proportion to their elements.
  double first_gradient = 1.0 / 3;
  std::vector<double> slowness;  // factors for the compute time of worker 0, 1, …; 1 for further workers
  MessageCost server_cost;       // for a push and its reply
  MessageCost worker_cost;       // for a push, and for a reply
  MessageCost member_cost;       // all-reduce: for a piece that another worker sends
  ReduceOptions reduce;
  Distribution prepare;  // time for a split, if there is no input
  Input input;
  double disk_bytes_per_s = 0;  // for checkpoints; 0: unlimited

  Duration reply_timeout = std::chrono::seconds(10);   // also the timeout of all operations of a group
  Duration parked_timeout = std::chrono::seconds(5);   // how long a server keeps a parked request
  Duration forward_timeout = std::chrono::seconds(2);  // until a server gives up a link to another one
  uint32_t leases_ahead = 2;
  Duration unreachable_after = std::chrono::seconds(2);
  uint64_t max_report_bytes = 1 << 20;  // ServerConfig::max_report_bytes

  // An alarm of drift at this interval raises the learning rate (Coordinator::OnDrift). 0: none.
  Duration alarm_interval{0};

  Faults faults;
  Deaths deaths;
  std::vector<PlannedFault> plan;
  std::optional<MoveDeath> move_death;
  std::optional<ForwardDeath> forward_death;
  // Called if the job has ended before the whole stream was trained. Returns true to resume it with this
  // number of servers and these rules.
  std::function<bool(uint32_t* servers, protocol::CutRules* cuts)> resume;
  Time time_limit = Time::max();  // Invariant::kDeadline
  // Check the expensive invariants; and the longest time without progress, 0: unlimited.
  bool check = false;
  Duration progress_within{0};
};

struct ClusterResult {
  std::optional<Violation> violation;  // none: the job has ended normally
  std::string error;                   // the violation as text; empty: none
  Status failure;                      // why the coordinator gave up the job; OK: it did not
  bool ended = false;                  // the job ended, before its result was checked
  Time took{0};                        // in virtual time
  uint64_t messages = 0;
  uint64_t deaths = 0;  // deaths of workers and servers
  uint64_t pauses = 0;
  uint64_t job_pauses = 0;
  uint64_t restarts = 0;       // restarts of the coordinator alone
  uint64_t elections = 0;      // coordinators that the members have elected
  uint64_t sets = 0;           // sets of coordinators that a majority of the members has learned
  uint64_t overtaken = 0;      // coordinators that were alive when another one took over
  uint64_t replaced = 0;       // overtaken ones that found out
  uint64_t resumes = 0;        // resumes of the whole job
  uint64_t raises = 0;         // raises of the learning rate
  uint64_t marks = 0;          // marks of late labels, journaled
  uint64_t lane_changes = 0;   // lanes: auto, journaled
  uint64_t rounds_remade = 0;  // rounds that others replace
  uint64_t drained = 0;        // workers that the coordinator has told to leave
  uint64_t checkpoints = 0;    // complete ones
  uint64_t overdue_leases = 0;
  std::array<uint64_t, kDeathPoints> deaths_at = {};
  uint64_t isolations = 0;
  uint64_t cuts = 0;              // cuts between a worker and a server
  uint64_t unreachable = 0;       // heartbeats that named a server
  uint64_t duplicates = 0;        // slices of pushes that a ledger rejected
  uint64_t late = 0;              // slices of pushes that arrived after their step
  uint64_t regranted_leases = 0;  // splits leased again
  uint64_t groups = 0;            // allreduce: groups joined by at least one member
  uint64_t state_broadcasts = 0;  // states that a member received from another
  uint64_t one_shots = 0;         // steps for which a member added all contributions itself
  uint64_t loads = 0;             // slices read from a checkpoint
  uint64_t damaged = 0;           // checkpoints that were found to be damaged
  uint64_t follow_rounds = 0;     // rounds that followers have completed
  uint64_t follow_changes = 0;    // completed rounds with other values than before
  Duration follow_gap{0};         // longest time between two rounds in a row of a follower
  uint64_t moves = 0;             // completed moves of slices from one server to another
  uint64_t moved_bytes = 0;       // sent for moves, whether these were made or not
  uint64_t servers_left = 0;      // after they have handed all slices over
  uint64_t forwards = 0;          // pushes that replicas have taken
  uint64_t promotions = 0;        // replicas that have taken the place of a slice
  uint64_t replicated = 0;        // slices with a replica, when the job ended
};

class Cluster;

// Observers, all called on the simulator's thread.
struct Hooks {
  std::function<void(Time, NodeId, const protocol::JoinRequest&)> on_join;
  // Each request that the coordinator receives.
  std::function<void(Time, const protocol::ControlRequest&)> on_request;
  // Each fault, in words.
  std::function<void(Time, const std::string&)> on_fault;
  // A follower has completed a round, that it began at the second time.
  std::function<void(Time, Time asked)> on_followed;
  // Called at this interval of virtual time; false ends the run.
  Duration watch_every{0};
  std::function<bool(const Cluster&)> watch;
};

class Cluster {
 public:
  Cluster(ClusterOptions options, Workload& workload, Hooks hooks = {});
  ~Cluster();

  ClusterResult Run();

  // ---- for hooks, and after the run
  Time now() const;
  uint64_t messages() const;
  protocol::CoordinatorStatus status() const;
  // The newest values of all slices, in table order; false if a slice has no server at present.
  bool Values(std::vector<float>* values) const;
  // As Values, from the newest checkpoint; false if there is none.
  bool Saved(std::vector<float>* values) const;
  const Disk& disk() const;
  // The last reported progress of every server that ever existed.
  std::vector<protocol::ServerProgress> servers() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::sim

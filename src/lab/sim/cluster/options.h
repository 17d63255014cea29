// A simulated job: machines, links, times, faults and the values that it trains, and the result of a run.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fields/fields.h"
#include "base/status.h"
#include "compute/optim/optimizer.h"
#include "lab/sim/events/distribution.h"
#include "lab/sim/faults/faults.h"
#include "lab/sim/hosts/link_queue.h"
#include "lab/sim/invariants.h"
#include "protocol/actions.h"
#include "protocol/coordinator/coordinator_settings.h"
#include "protocol/records/journal.h"

namespace leat::sim {

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

// Outgoing bytes queue at the sender in the order of sending, incoming ones at the receiver in the order of
// arrival. The coordinator's messages have only the latency.
struct NetworkOptions {
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
  // Where the first, second, … server process is, if there are no `hosts`; further ones start again with the
  // first place. Empty: it is not known.
  std::vector<topology::HostPlace> server_places;
  // The link between a rack or data centre and all others; its latency adds to that of hosts. Empty: all
  // hosts are on one switch.
  std::vector<Link> zones;
  Duration local_latency = std::chrono::microseconds(10);  // within a host
  double jitter = 0;  // each message's latency grows by up to this fraction
};

// Splits that workers read from elsewhere: a feed, a broker, a file server.
struct Input {
  Link link;               // link of the source, which all workers share
  double event_bytes = 0;  // 0: splits are on the worker's host
  double decode = 0;       // seconds per event, on a thread of its own
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

// Times of the workers' and servers' own work.
struct WorkOptions {
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
};

// How long processes wait, and how far they work ahead.
struct TimeoutOptions {
  Duration reply_timeout = std::chrono::seconds(10);   // also the timeout of all operations of a group
  Duration parked_timeout = std::chrono::seconds(5);   // how long a server keeps a parked request
  Duration forward_timeout = std::chrono::seconds(2);  // until a server gives up a link to another one
  uint32_t leases_ahead = 2;
  Duration unreachable_after = std::chrono::seconds(2);
  uint64_t max_report_bytes = 1 << 20;  // ServerConfig::max_report_bytes
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

// The coordinator's configuration, and the world around it. The cluster itself sets what depends on the
// stream (partitions, late_labels) and on the coordinators before this one (term, take_over, keep_scale).
struct ClusterOptions : protocol::CoordinatorConfig,
                        NetworkOptions,
                        WorkOptions,
                        TimeoutOptions,
                        FaultOptions {
  ClusterOptions() {
    placement = protocol::Placement::kGreedy;
    heartbeat_interval = std::chrono::milliseconds(100);  // for busy roles; here all are
  }

  uint64_t seed = 1;
  uint32_t standby = 0;    // workers that stand by; so do then all that replace a worker
  uint32_t followers = 0;  // members that follow the parameters, and how often
  Duration refresh = std::chrono::milliseconds(100);
  // Standby coordinators, each on a host of its own with its own directory. 0: coordinators share a
  // directory.
  uint32_t coordinator_standbys = 0;
  optim::OptimizerConfig optimizer;
  StreamPlan stream;
  // An alarm of drift at this interval raises the learning rate (Coordinator::OnDrift). 0: none.
  Duration alarm_interval{0};
  // Called if the job has ended before the whole stream was trained. Returns true to resume it with this
  // number of servers and these rules.
  std::function<bool(uint32_t* servers, protocol::CutRules* cuts)> resume;
  Time time_limit = Time::max();  // Invariant::kJobDeadline
  // Check the expensive invariants; and the longest time without progress, 0: unlimited.
  bool check = false;
  Duration progress_within{0};
};

// ---- computations of the workers: nothing (modelled steps), counts, or a real network

struct Trained {
  protocol::BatchOutcome outcome;
  double loss_sum = 0;  // Σ over events, before training on them
  uint64_t correct = 0;
};

// A worker's values and gradients. Replaced whenever the worker's process restarts.
class WorkerMemory {
 public:
  virtual ~WorkerMemory() = default;
  // Trains one batch of a lease on the current values. `first` as in protocol::Compute.
  virtual Trained Compute(const protocol::Lease& lease, uint32_t batch, bool first) = 0;
  // The data to push for the last computed run (all-reduce: to be added to the step's sums), for all slices
  // in table order. Immutable, because pushes in transit and duplicates share it.
  virtual std::shared_ptr<const std::vector<float>> Pushed() = 0;
  virtual void TakeValues(SliceId slice, uint64_t version, std::span<const float> values) = 0;
  // Fills in the fields of a heartbeat other than events, losses and times.
  virtual void FillProgress(protocol::WorkerProgress* /*progress*/) const {}
};

class Workload {
 public:
  virtual ~Workload() = default;
  // Null: steps are modelled. Payloads have sizes but no contents.
  virtual std::unique_ptr<WorkerMemory> Join() = 0;
  // Steps from this one on have another number of lanes. They may have been trained before a rollback.
  virtual void OnLanes(const protocol::LanesSet& /*set*/) {}
};

// Every batch is good and full.
class ModelledWorkload final : public Workload {
 public:
  std::unique_ptr<WorkerMemory> Join() override { return nullptr; }
};

// The result of a run.
struct ClusterResult {
  std::optional<Violation> violation;  // none: the job has ended normally
  std::string error;                   // the violation as text; empty: none
  Status failure;                      // why the coordinator gave up the job; OK: it did not
  bool ended = false;                  // the job ended, before its result was checked
  Time took{0};                        // in virtual time
  uint64_t messages = 0;               // sent, on both planes
  uint64_t unreachable = 0;            // heartbeats that named a server
  // ---- pushes
  uint64_t duplicates = 0;  // slices of pushes that a ledger rejected
  uint64_t late = 0;        // slices of pushes that arrived after their step
  // ---- leases
  uint64_t raises = 0;        // raises of the learning rate
  uint64_t marks = 0;         // marks of late labels, journaled
  uint64_t lane_changes = 0;  // lanes: auto, journaled
  uint64_t overdue_leases = 0;
  uint64_t regranted_leases = 0;  // splits leased again
  // ---- slices
  uint64_t moves = 0;         // completed moves of slices from one server to another
  uint64_t moved_bytes = 0;   // sent for moves, whether these were made or not
  uint64_t servers_left = 0;  // after they have handed all slices over
  uint64_t forwards = 0;      // pushes that replicas have taken
  uint64_t promotions = 0;    // replicas that have taken the place of a slice
  uint64_t replicated = 0;    // slices with a replica, when the job ended
  // ---- checkpoints
  uint64_t checkpoints = 0;    // complete ones
  uint64_t loads = 0;          // slices read from a checkpoint
  uint64_t damaged = 0;        // checkpoints that were found to be damaged
  uint64_t rounds_remade = 0;  // rounds that others replace
  // ---- groups
  uint64_t groups = 0;            // allreduce: groups joined by at least one member
  uint64_t state_broadcasts = 0;  // states that a member received from another
  uint64_t one_shots = 0;         // steps for which a member added all contributions itself
  // ---- subscribers
  uint64_t follow_rounds = 0;   // rounds that followers have completed
  uint64_t follow_changes = 0;  // completed rounds with other values than before
  Duration follow_gap{0};       // longest time between two rounds in a row of a follower
  // ---- succession
  uint64_t restarts = 0;   // restarts of the coordinator alone
  uint64_t elections = 0;  // coordinators that the members have elected
  uint64_t sets = 0;       // sets of coordinators that a majority of the members has learned
  uint64_t replaced = 0;   // coordinators that found out that another one took over
  uint64_t resumes = 0;    // resumes of the whole job
  // ---- faults
  uint64_t deaths = 0;  // deaths of workers and servers
  std::array<uint64_t, kDeathPoints> deaths_at = {};
  uint64_t overtaken = 0;  // coordinators that were alive when another one took over
  uint64_t drained = 0;    // workers that the coordinator has told to leave
  uint64_t job_pauses = 0;
  uint64_t pauses = 0;  // processes that stopped
  uint64_t isolations = 0;
  uint64_t cuts = 0;  // cuts between a worker and a server
};

}  // namespace leat::sim

// A whole job in one thread: the coordinator, servers and workers of protocol/, as they are, over a virtual
// clock, a virtual network and a virtual disk.
//
// Hosts have links of a bandwidth and a latency, computations take times that are drawn, servers need time
// for every byte. Whatever can go wrong does, by chance or by plan: messages are delayed, lost and doubled;
// processes pause, die, leave and are replaced; the coordinator crashes between any two of its actions and
// starts again from its journal; the job is stopped and resumed with other numbers of servers; the stream
// grows while all this happens.
//
// A run is a pure function of its options, its workload and its hooks: one seed, one thread, no clock of the
// machine. This folder decides nothing of the protocol: it carries out the machines' actions and brings them
// what became of those.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "optim/optimizer.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/server/server.h"
#include "protocol/worker/worker.h"
#include "sim/events/distribution.h"
#include "sim/invariants.h"
#include "sim/workload.h"

namespace leat::sim {

class Disk;

struct Faults {
  // Chances for each message of the data plane, each way, and for each call of the control plane, each way.
  // Among the members of a group it is a hundredth of that: one that is lost ends the group.
  double lost = 0;
  double duplicated = 0;  // a push arrives twice, the second time whenever it likes
  double slow = 0;        // takes up to seconds
  double split_unreadable = 0;
  double crash_between_actions = 0;  // of the coordinator, at each action
  double server_deaths = 0;          // share of the disasters
  double full_disk = 0;              // a write fails
  double unreadable = 0;             // a slice cannot be read from a checkpoint
  Duration slow_disk{0};             // that a write takes at most
  Duration fault_interval{0};        // mean time between deaths, pauses, stops; 0: none
  Time until{0};                     // then nothing goes wrong any more
};

// Something that goes wrong at its time, whatever chance says.
struct PlannedFault {
  enum class What : uint8_t { kKill = 0, kPause = 1, kLeave = 2, kStart = 3 } what = What::kKill;
  Time at{0};
  protocol::Role role = protocol::Role::kWorker;
  uint32_t place = 0;     // of those of the role that are there, in the order in which they were started
  Duration lasts{0};      // kPause
  bool replaced = false;  // kKill: another one starts a second later
};

struct Link {
  double bytes_per_s = 0;  // each way; 0: as many as one likes
  Duration latency{0};     // of each message, besides what its bytes take
};

// Each partition [first, first + events) of the stream, growing evenly from none while `takes` lasts.
struct StreamPlan {
  struct Partition {
    uint64_t first = 0;
    uint64_t events = 0;
  };
  std::vector<Partition> partitions;
  Duration takes{0};
};

// How the members of a group reduce (protocol/member/reduction.h), where there are no servers: as step/
// and collective/ do.
struct ReduceOptions {
  uint64_t bucket_bytes = 1 << 20;     // at least; whole variables
  uint64_t exchange_bytes = 64 << 10;  // buckets up to this size are exchanged
  uint64_t piece_bytes = 256 << 10;
  uint64_t eager_bytes = 1 << 20;
  bool one_shot = false;  // in groups of at most protocol::kMaxOneShotMembers, where nothing is deterministic
};

struct ClusterOptions {
  uint64_t seed = 1;
  uint32_t servers = 1;  // allreduce: 0
  uint32_t workers = 1;
  protocol::SliceTable table;
  protocol::Placement placement = protocol::Placement::kGreedy;
  optim::OptimizerConfig optimizer;
  protocol::StrategyConfig strategy;
  protocol::CutRules cuts;
  StreamPlan stream;

  // Bytes wait for each other on a host's way out, in the order of their sending, and on its way in, in the
  // order of their coming. The coordinator's messages know the latency alone.
  Link server_link, worker_link;
  double jitter = 0;  // each message's latency is longer by up to this share of it
  Distribution compute;
  std::vector<double> slowness;  // factors on the compute time of worker 0, 1, …; 1 for those behind the last
  // A server's time for each message, and for each byte of it; where there are none, a worker's for what
  // other workers send.
  Duration server_message{0};
  double server_byte = 0;  // seconds
  ReduceOptions reduce;
  Distribution prepare;  // of a split

  Duration heartbeat_interval = std::chrono::milliseconds(100);
  Duration heartbeat_timeout = std::chrono::seconds(5);
  Duration reply_timeout = std::chrono::seconds(10);  // and for all that members of a group do together
  Duration parked_timeout = std::chrono::seconds(5);  // a server's patience with a request that waits
  uint32_t leases_ahead = 2;
  Duration checkpoint_interval{0};
  Duration checkpoint_timeout = std::chrono::seconds(60);
  Duration server_wait = std::chrono::seconds(10);
  Duration tail_wait = std::chrono::milliseconds(200);
  uint32_t keep_checkpoints = 2;

  Faults faults;
  std::vector<PlannedFault> plan;
  // Asked when the job has ended though not all of the stream is in: true, and it is resumed on so many
  // servers, by those rules for cuts.
  std::function<bool(uint32_t* servers, protocol::CutRules* cuts)> resume;
  Time time_limit = Time::max();  // Invariant::kDeadline
  // Whether the invariants that take time are looked at, too; and how long nothing may move, 0 for ever.
  bool check = false;
  Duration progress_within{0};
};

struct ClusterResult {
  std::optional<Violation> violation;  // none: the job has come to its end
  std::string error;                   // the violation in words; empty: none
  bool ended = false;                  // it had, before anybody looked at what came of it
  Time took{0};                        // on the virtual clock
  uint64_t messages = 0;
  uint64_t deaths = 0;  // of workers and servers
  uint64_t pauses = 0;
  uint64_t restarts = 0;          // of the coordinator alone
  uint64_t resumes = 0;           // of the whole job
  uint64_t checkpoints = 0;       // complete ones
  uint64_t duplicates = 0;        // slices of pushes that a ledger turned away
  uint64_t late = 0;              // that came when their step was over
  uint64_t regranted_leases = 0;  // splits leased again
  uint64_t groups = 0;            // allreduce: that were named, and joined by their first member
  uint64_t state_broadcasts = 0;  // states that members of a group were given by another
  uint64_t one_shots = 0;         // steps of which a member has added up all contributions by itself
  uint64_t loads = 0;             // slices that were read from a checkpoint
};

class Cluster;

// What may look on. All are called in the one thread.
struct Hooks {
  std::function<void(Time, NodeId, const protocol::JoinRequest&)> on_join;
  // Heartbeats as the coordinator gets them.
  std::function<void(Time, const protocol::ControlRequest&)> on_request;
  // Every so often, on the virtual clock; false ends the run.
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
  // Newest values of all slices, in the table's order; false when one of them lives nowhere at present.
  bool Values(std::vector<float>* values) const;
  // The same of the newest checkpoint; false when there is none.
  bool Saved(std::vector<float>* values) const;
  const Disk& disk() const;
  // What each server that there ever was had done when it was last heard of.
  std::vector<protocol::ServerProgress> servers() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::sim

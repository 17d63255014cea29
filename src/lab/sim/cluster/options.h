// The options of a virtual cluster: the coordinator's configuration, and the world around it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "compute/optim/optimizer.h"
#include "lab/sim/events/distribution.h"
#include "lab/sim/faults/faults.h"
#include "lab/sim/hosts/link_queue.h"
#include "protocol/coordinator/coordinator.h"

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

}  // namespace leat::sim

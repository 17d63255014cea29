// `leat worker`: computes gradients of leased splits. It stores nothing durable.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "compute/engine/plan.h"
#include "job/job.h"
#include "net/transport.h"
#include "run/roles/coordinator_client.h"
#include "run/roles/membership.h"
#include "run/roles/shards/shard_files.h"

namespace leat::roles {

struct RoleOptions {
  CoordinatorClientOptions coordinator_client;
  std::string listen = "127.0.0.1:0";  // address of the data plane
  std::string advertise;               // the address that other members are told; net::AdvertisedAddress
  // Transport of the data plane. Token and TLS are those of coordinator_client; the job decides whether
  // networks are trusted.
  net::TransportOptions transport;
  engine::PlanOptions plan;  // the kernels that workers compute with
  // How long a worker retries a stream whose events are missing or damaged before it fails. It waits longer
  // for other errors (input/input_errors.h).
  Duration read_timeout = std::chrono::seconds(5);
  bool standby = false;             // worker: it gets no work until it takes the place of another
  std::optional<double> rate = {};  // bots: events per second; none: the job's
};

// The options of a worker's plans: the role's kernels with the job's precision, threads and devices.
engine::PlanOptions MakePlanOptions(const job::Job& job, const RoleOptions& options,
                                    const Membership& membership);

// How long a role that ends waits for its peers to finish what they read in its memory.
constexpr Duration kLinger = std::chrono::seconds(5);

// The options of a transport of a role, with its token and its certificate.
net::TransportOptions TransportOf(const RoleOptions& options, const wire::Port& port);

// Makes the transport of a role's data plane. The job sets later whether networks are trusted.
std::unique_ptr<net::Transport> MakeTransport(net::Loop& loop, const RoleOptions& options,
                                              const wire::Port& port);

// The checkpoint files of a role that has joined. Its errors are the user's.
Result<std::unique_ptr<ShardFiles>> MakeShardFiles(const Membership& membership, const job::Job& job,
                                                   const RoleOptions& options);

// Joins and trains, in the calling thread, until the job is over or a signal asks it to leave: both return
// ok. Returns kUnavailable if the coordinator cannot be reached or is lost.
Status RunWorker(const RoleOptions& options);

}  // namespace leat::roles

// `leat worker`: a compiled graph, a place in the stream, nothing durable.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "engine/plan.h"
#include "net/transport.h"
#include "roles/coordinator_client.h"

namespace leat::train {

struct RoleOptions {
  CoordinatorClientOptions coordinator_client;
  std::string listen = "127.0.0.1:0";  // of the data plane
  // Of the data plane, but for the token, which is the link's, and what the job says: whether networks are
  // trusted.
  net::TransportOptions transport;
  engine::PlanOptions plan;  // the kernels that workers compute with
  // With a stream whose events are gone or damaged, before that is an error; six times that with one that
  // cannot be read for any other reason.
  Duration read_timeout = std::chrono::seconds(5);
  // The exit status that goes with an error, for a worker that has to end by itself, with all others: by MPI.
  std::function<int(const Status&)> exit_status;
};

// Of a role's data plane; its job has still to say whether networks are trusted.
std::unique_ptr<net::Transport> MakeTransport(net::Loop& loop, const RoleOptions& options);

// Joins, trains until the job is over or a signal asks it to leave, and returns why it ended: ok in both
// cases. Runs in the calling thread. kUnavailable when the coordinator cannot be reached or is lost.
Status RunWorker(const RoleOptions& options);

}  // namespace leat::train

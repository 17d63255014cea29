// `leat worker` where there are no servers: it holds all parameters, and makes steps in a group with others.
#pragma once

#include <memory>

#include "collective/port.h"
#include "job/job.h"
#include "roles/coordinator_client.h"
#include "roles/worker_role.h"

namespace leat::train {

// From joining to the end of the job, or until this node is evicted (`evicted` is set), or a signal has asked
// it to leave. `port` is where others find it, at the address that it has joined with. Runs the loop. Where
// the job says so, its group is that of MPI, and the process may end in here: with a failure, or when it is
// to leave while others go on.
Status RunGroupMember(net::Loop& loop, CoordinatorClient& coordinator_client, net::Transport& transport,
                      collective::Port& port, Job job, std::unique_ptr<stream::Source> source,
                      const RoleOptions& options, const protocol::JoinReply& joined, bool* evicted);

}  // namespace leat::train

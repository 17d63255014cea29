// `leat worker` of a job without servers: holds all parameters and makes steps in a group with other members.
#pragma once

#include "job/job.h"
#include "run/roles/input/open_stream.h"
#include "run/roles/membership.h"
#include "run/roles/worker_role.h"
#include "train/collective/port.h"

namespace leat::roles {

// Runs a joined member until the job is over, it is evicted, or a signal asks it to leave. Other members
// connect to `port`, at the address of its join. If the job reduces by MPI, this function may end the
// process: on a failure, or when the member leaves while others continue.
Status RunGroupMember(net::Loop& loop, Membership& membership, net::Transport& transport,
                      collective::Port& port, job::Job job, OpenedStream stream,
                      std::unique_ptr<ShardFiles> files, const RoleOptions& options);

}  // namespace leat::roles

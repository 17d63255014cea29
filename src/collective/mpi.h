// All-reduce by MPI, for processes that mpirun has started: the group is all of MPI_COMM_WORLD.
//
// MPI cannot take a member out nor end what has begun, so its promise is smaller than AllReduce's: a member
// that dies or stalls ends the whole job within the deadline, with a line that names it. After the first
// failure the buckets' memory must stay until the process ends, and it has to end soon: `exit_grace` after
// the failure this ends it (and, through MPI, all others) itself. A process that mpirun loses altogether is
// ended with all others by mpirun.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "collective/all_reduce.h"
#include "net/loop.h"

namespace leat::collective {

struct MpiOptions {
  // Of the module; empty: leat_mpi.so beside this program.
  std::string module;
  // As PeerOptions::deadline.
  Duration deadline = std::chrono::seconds(60);
  Duration exit_grace = std::chrono::seconds(3);
  // Exit status of this process, and through MPI of the others, when this ends it.
  int exit_status = 1;
  uint64_t piece_bytes = 256 << 10;  // of what is added in the order of lanes; the same on all members
};

// Loads the module and joins the others: waits until all of them have started, as MPI does. Once in a
// process. The loop outlives it. Destroyed while all is well it waits for the others to do the same; after a
// failure it ends the job.
Result<std::unique_ptr<AllReduce>> LoadMpi(net::Loop& loop, MpiOptions options);

}  // namespace leat::collective

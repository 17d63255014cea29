// All-reduce by MPI, for processes that mpirun has started: the group is all of MPI_COMM_WORLD.
//
// MPI cannot take a member out nor end what has begun, so its promise is smaller than AllReduce's: a member
// that dies or stalls ends the whole job within the deadline, with a line that names it. After the first
// failure the buckets' memory must stay until the process ends, and it has to end soon: `exit_grace` after
// the failure this ends it (and, through MPI, all others) itself. A process that mpirun loses altogether is
// ended with all others by mpirun.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "collective/all_reduce.h"
#include "net/loop.h"
#include "protocol/messages_control.h"

struct LeatMpiModule;

namespace leat::collective {

// Where this process stands among those that mpirun (or srun) has started, as they say in the environment:
// it is known before MPI is asked, which waits for all of them. Nothing where it was started by itself.
std::optional<protocol::MpiRank> FindMpiRank();

// `path` empty: leat_mpi.so beside this program. Stays loaded. kNotFound where there is no MPI.
Result<const LeatMpiModule*> LoadMpi(const std::string& path = {});

struct MpiOptions {
  protocol::MpiRank place;  // MPI has to say the same
  // As PeerOptions::deadline. All have to have come to the beginning, and to the end, within as much.
  Duration deadline = std::chrono::seconds(60);
  Duration exit_grace = std::chrono::seconds(3);
  // Exit status of this process, and through MPI of the others, when this ends it.
  int exit_status = 1;
  // The same where it was told to, by Abort; null: no other.
  std::function<int(const Status&)> exit_status_of;
  // From this size on buckets go in pieces from rank to rank and back, as do all that are added in the order
  // of lanes, and not by MPI's own all-reduce: of its kinds only the one that does not block can be aborted,
  // and in Open MPI that takes two to five times as long for them. Both sizes are the same on all members.
  uint64_t chain_bytes = 2 << 20;
  uint64_t piece_bytes = 256 << 10;
};

// Joins the others; `formed` is called from the loop, once, with ok or why there is no group, and buckets may
// be started after that. Once in a process. Loop and module outlive it. Destroyed while all is well it waits
// for the others to do the same; after a failure, in the middle of a bucket, or before the group is formed it
// ends the job.
std::unique_ptr<AllReduce> MakeMpiAllReduce(net::Loop& loop, const LeatMpiModule& mpi, MpiOptions options,
                                            std::function<void(const Status&)> formed);

}  // namespace leat::collective

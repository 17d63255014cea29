// All-reduce by MPI, for processes started by mpirun. The group is MPI_COMM_WORLD.
//
// MPI can neither remove a member nor cancel an operation, so the contract is weaker than AllReduce's. If a
// member dies or stalls, the whole job ends within the deadline, with a message that names the member. After
// the first failure the memory of all buckets must stay allocated until the process ends. It has to end soon:
// `exit_grace` later this class ends it and, through MPI, all others. If mpirun loses a process, it ends all
// others.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "net/transport.h"
#include "protocol/messages_control.h"
#include "train/collective/all_reduce.h"

struct LeatMpiModule;

namespace leat::collective {

// The rank of this process as given by mpirun or srun in the environment, known before MPI is initialized,
// which waits for all processes. None for a process started otherwise.
std::optional<protocol::MpiRank> FindMpiRank();

// Loads the module at `path`, by default leat_mpi.so beside this program; it stays loaded. Returns kNotFound
// without an MPI.
Result<const LeatMpiModule*> LoadMpi(const std::string& path = {});

struct MpiOptions {
  protocol::MpiRank place;  // verified against MPI
  // As PeerOptions::deadline. Also limits initialization and finalization, which wait for all members.
  Duration deadline = std::chrono::seconds(60);
  Duration exit_grace = std::chrono::seconds(3);
  // The exit status of this process, and through MPI of the others, when this class ends it.
  int exit_status = 1;
  // The exit status after Abort; null: exit_status.
  std::function<int(const Status&)> exit_status_of;
  // Buckets of at least this size, and all kLanes buckets, go in pieces from rank to rank and back instead of
  // using MPI's all-reduce. Only MPI's non-blocking all-reduce can be aborted, and in Open MPI it takes two
  // to five times as long for them. Both sizes must be equal on all members.
  uint64_t chain_bytes = 2 << 20;
  uint64_t piece_bytes = 256 << 10;
};

// Joins the group. `formed` is called once, from the loop, with ok or the reason for failure; buckets may be
// started after ok. Once per process; `loop` and `mpi` must outlive it. Normal destruction waits for the
// other members. After a failure, during a bucket, or before the group is formed, destruction ends the job.
std::unique_ptr<AllReduce> MakeMpiAllReduce(net::Loop& loop, const LeatMpiModule& mpi, MpiOptions options,
                                            net::Done formed);

}  // namespace leat::collective

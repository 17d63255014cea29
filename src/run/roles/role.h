// Helpers of all role processes.
#pragma once

#include <cstdint>
#include <string>

#include "job/job.h"
#include "protocol/messages_control.h"

namespace leat::roles {

// The version of the program, with the git commit that it was built from: "0.1.0+1a2b3c4d5e6f", or
// "0.1.0+no-git-commit", and the program's extensions. All processes of a job must have the same.
std::string ProgramVersion();
// A random number by which a process is known, not 0.
uint64_t NewProcess();
// A join request with this process's host, network and pid, and a worker's MPI rank. `coordinator`: where it
// is called.
protocol::JoinRequest MakeJoinRequest(protocol::Role role, const std::string& address,
                                      const topology::HostPlace& place, uint64_t process,
                                      const std::string& coordinator);

// A call was not answered, and another attempt may succeed.
bool NoAnswer(const Status& status);

// The zone of a process with this place of its own, also by the job's zone map; empty: it is not known.
std::string ZoneOf(const job::Job& job, const topology::HostPlace& own);

// Before a batch of a worker, after `batches` others: what the job's settings for tests say.
void DelayBatch(const job::DebugSpec& debug, uint64_t batches);

// CPU time that this process has used so far.
double OwnCpuSeconds();

}  // namespace leat::roles

// What all role processes have in common.
#pragma once

#include <string>

#include "base/status.h"
#include "protocol/messages_control.h"

namespace leat::train {

// Version of the program that peers compare.
std::string ProgramVersion();
// With this process's host and pid, and a worker's place in MPI. `job_hash`: of the job that it was in
// before; 0: none.
protocol::JoinRequest MakeJoinRequest(protocol::Role role, const std::string& address, uint64_t job_hash);

// Of a join that failed: ok when the job was over already, which is no mistake of who comes late.
Status JoinError(const Status& status);

// Processor time that this process has used so far.
double OwnCpuSeconds();

}  // namespace leat::train

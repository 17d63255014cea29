// What all role processes have in common.
#pragma once

#include <string>

#include "protocol/messages.h"

namespace leat::train {

// Version of the program that peers compare.
std::string ProgramVersion();
// With this process's host and pid.
protocol::JoinRequest MakeJoinRequest(protocol::Role role, const std::string& address);

// Processor time that this process has used so far.
double OwnCpuSeconds();

}  // namespace leat::train

// The directory of an agent (agent.h), which is the agent's alone.
#pragma once

#include <string>

#include "base/status.h"
#include "storage/checkpoint/file.h"

namespace leat::pool {

// Makes the directory, or takes one that an agent has made, and removes what a killed agent has left in
// secrets/. It is the caller's as long as the file is open. kFailedPrecondition, and nothing is changed: it
// has something else, or another agent uses it.
Result<checkpoint::File> OpenAgentDirectory(const std::string& directory);

// The id of the pool whose jobs the directory has; empty: it has no jobs yet. kFailedPrecondition: it has
// some, and nothing says of which pool they are.
Result<std::string> PoolOfAgentDirectory(const std::string& directory);
// From here on it is this pool's.
Status GiveAgentDirectory(const std::string& directory, const std::string& pool);

// Ok if jobs can write there; otherwise why not: the disk is full, read-only, or fails.
Status ProbeAgentDirectory(const std::string& directory);

}  // namespace leat::pool

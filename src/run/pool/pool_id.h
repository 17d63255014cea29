// The id of a pool: a name that no other pool has. A pool makes it with its directory, and an agent keeps it
// in its own, because numbers of jobs and processes mean something in one pool only.
#pragma once

#include <string>

#include "base/status.h"

namespace leat::pool {

// kNotFound: there is no such file. kDataLoss: it has no id.
Result<std::string> ReadPoolId(const std::string& path);
// Durable. kInvalidArgument: it is no id.
Status WritePoolId(const std::string& directory, const std::string& name, const std::string& id);

}  // namespace leat::pool

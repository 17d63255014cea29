// `leat bots`: publishes the job's simulated payments to its topic at a set rate.
#pragma once

#include "base/status.h"
#include "roles/worker_role.h"

namespace leat::train {

// Joins, publishes until all events are there (the topic is sealed then), the job is over, or a signal asks
// it to leave. A bots process that is started again goes on where the topic ends.
Status RunBots(const RoleOptions& options);

}  // namespace leat::train

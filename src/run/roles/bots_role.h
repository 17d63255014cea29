// `leat bots`: publishes the job's simulated payments to its topic at a set rate.
#pragma once

#include "base/status.h"
#include "run/roles/worker_role.h"

namespace leat::roles {

// Joins and publishes until all events are published (and the topic is sealed), the job is over, or a signal
// asks it to leave. A restarted bots process continues at the end of the topic.
Status RunBots(const RoleOptions& options);

}  // namespace leat::roles

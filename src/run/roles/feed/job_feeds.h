// The feeds of a role's job.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "net/transport.h"
#include "protocol/messages_control.h"
#include "run/feed/client.h"
#include "run/roles/coordinator_client.h"

namespace leat::roles {

// The job, and the addresses of its feeds. Blocks for at most `deadline`.
Result<protocol::JobReply> AskForJob(const CoordinatorClientOptions& options, Duration deadline);

// The options of a client that asks the coordinator for the job's feeds. `content`: Job::InputsHash, or 0.
feed::ClientOptions FeedsOf(const CoordinatorClientOptions& options, net::TransportOptions transport,
                            uint64_t content);

}  // namespace leat::roles

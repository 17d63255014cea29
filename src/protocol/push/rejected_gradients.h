// The end of a job whose gradients are not finite. Pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "protocol/members/roster.h"

namespace leat::protocol {

// The reason to end the job after `limit` consecutive non-finite gradients; ok: there are fewer. `last`: the
// last of them, as far as it is known.
Status CheckRejected(const Roster& roster, uint32_t limit, uint32_t consecutive,
                     const std::optional<RejectedRun>& last);

}  // namespace leat::protocol

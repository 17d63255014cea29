// Checks of pushes and forwards against the job. Messages of peers are untrusted: kInvalidArgument if one
// contradicts itself or the job. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "protocol/messages_data.h"
#include "protocol/slices/server/job_slices.h"

namespace leat::protocol {

// If `elements` is not null, it receives the number of floats of payload per slice: the size by the table,
// whatever becomes of the push, because the sender cannot know that.
Status CheckPush(const JobSlices& job, const PushRequest& request, std::vector<uint64_t>* elements);
Status CheckForward(const JobSlices& job, const ForwardRequest& request, std::vector<uint64_t>* elements);

}  // namespace leat::protocol

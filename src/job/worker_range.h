// The number of workers of a job as users write it.
#pragma once

#include <string_view>

#include "base/status.h"
#include "protocol/messages_control.h"

namespace leat::job {

// Reads "4" or "2:8". The error, kInvalidArgument, quotes the text.
Result<protocol::WorkerRange> ParseWorkerRange(std::string_view text);

}  // namespace leat::job

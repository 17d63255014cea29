// `leat timeline`: records what all processes of a job do.
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include "net/rpc/client.h"
#include "show/timeline/trace.h"

namespace leat::launcher {

// Blocks for the time that is recorded, some seconds more, and then for as long as parts of the recording
// come: `patience` is for each of these waits, however large the recording is. The error is the
// coordinator's, or that of a call to it. A process that does not answer is named in the result, and holds
// nothing up.
inline constexpr Duration kTimelinePatience = std::chrono::seconds(30);
Result<timeline::Recorded> RecordTimeline(control::ControlClient& client, Duration length,
                                          Duration patience = kTimelinePatience);

}  // namespace leat::launcher

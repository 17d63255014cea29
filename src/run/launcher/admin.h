// Commands at a running job: its status, changes (checkpoint, scale, drain, pause, continue, stop), and
// `leat timeline`, which records what all processes of the job do.
#pragma once

#include <chrono>
#include <cstdio>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "net/rpc/client.h"
#include "protocol/messages_control.h"
#include "show/report/display.h"
#include "show/timeline/trace.h"

namespace leat::launcher {

// Asks the coordinator for the status of its job.
Result<report::JobStatus> AskStatus(control::ControlClient& client, Duration deadline);

// Blocks until the coordinator has carried out the request, as long as there is progress
// (report::AdminWait), and shows on `out` how far a checkpoint is. Returns the coordinator's answer,
// or why it is not waited for. Aborts `client` in the latter case. `interval`: between two questions about
// the status. `silence`: without an answer, the coordinator is lost.
Status RunAdmin(control::ControlClient& client, const protocol::AdminRequest& request, std::FILE* out,
                Duration interval = std::chrono::seconds(1), Duration silence = report::AdminWait::kSilence);

// The request to drain the member that is named as in a status, "worker 3". The error quotes the name.
Result<protocol::AdminRequest> DrainRequest(std::string_view name);

// Blocks for the time that is recorded, some seconds more, and then for as long as parts of the recording
// come: `patience` is for each of these waits, however large the recording is. A coordinator that does not
// say at once that it records is given up like one that does not tell its status. The error is the
// coordinator's, or that of a call to it. A process that does not answer is named in the result, and holds
// nothing up.
inline constexpr Duration kTimelinePatience = std::chrono::seconds(30);
Result<timeline::Recorded> RecordTimeline(control::ControlClient& client, Duration length,
                                          Duration patience = kTimelinePatience);

}  // namespace leat::launcher

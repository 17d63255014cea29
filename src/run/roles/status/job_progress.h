// The job's progress (show/report/progress.h) as the coordinator fills it: from the job's settings, and from
// the requests of members.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "job/job.h"
#include "protocol/messages_control.h"
#include "run/roles/start/coordinator_options.h"
#include "show/report/progress.h"

namespace leat::roles {

// Warnings about a placement that puts too much on one server.
std::vector<std::string> PlacementWarnings(const job::Job& job);
report::Progress::Options ProgressOptions(const job::Job& job, const CoordinatorOptions& options);

// Adds figures that a member reports in its heartbeat.
void RecordProgress(Time now, const protocol::ControlRequest& request, report::Progress* progress);

// At the end of the stream the limit of dead letters holds for all of it, however short it was.
// kInvalidArgument: there are too many.
Status CheckDeadLetters(const job::Job& job, const protocol::CoordinatorStatus& status,
                        const report::Progress& progress);

// Writes summary.json into the job's directory, or removes that of an earlier run.
void WriteSummary(const std::string& directory, const report::JobStatus& summary);

}  // namespace leat::roles

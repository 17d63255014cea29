// The inputs of a job that is resumed, compared with what its last run has read.
#pragma once

#include <string>
#include <vector>

#include "job/job.h"

namespace leat::job {

// The job, whose inputs are on this host, with their identities. `trained`: the identities that the last run
// has read (Job::inputs); empty: they are unknown, and nothing is compared. Files may have grown at their
// end, and others may have been added behind them: their new records follow all others, and a note says so.
// Throws std::invalid_argument with both identities if a file or a topic was replaced; StatusError if one
// cannot be read now.
Job WithTrained(const Job& job, const std::vector<std::string>& trained);

}  // namespace leat::job

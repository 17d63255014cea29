// Checks of a job's directory before the job resumes from it.
#pragma once

#include <string>

#include "job/job.h"

namespace leat::job {

// Both throw std::invalid_argument.

// Reads the job of a directory, as resolved by its last run.
Job ReadStored(const std::string& directory);

// Throws if job.directory holds no job or another one (the message names the differing part), or if its
// newest checkpoint is damaged.
void CheckResumable(const Job& job);

}  // namespace leat::job

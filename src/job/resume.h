// What a job's directory has to be for the job to go on in it.
#pragma once

#include "job/job.h"

namespace leat::train {

// Refuses to resume job.directory when it holds no job or another one (the differing section is named), or
// when its newest checkpoint is damaged: throws std::invalid_argument.
void CheckResumable(const Job& job);

}  // namespace leat::train

// Checks before a job starts that everything it reads exists and matches its schema.
#pragma once

#include <string>
#include <vector>

#include "job/job.h"
#include "stream/source.h"

namespace leat::job {

// All throw std::invalid_argument with the path or topic and the values.

// Opens everything that the job reads, and checks that this machine has the devices of its layers. Returns
// warnings, one line each.
std::vector<std::string> CheckReadable(const Job& job);

// Checks that need only the open stream.
// Checks that the first records of files, or of a source of the program's own, in these ranges match the
// schema. Returns a warning for each category of which no value occurs in them.
std::vector<std::string> CheckFits(const Job& job, stream::Source& source,
                                   const std::vector<stream::PartitionRange>& ranges);
// Checks that there are records, unless the job may wait for them.
void CheckNotEmpty(const Job& job, const std::vector<stream::PartitionRange>& ranges);

}  // namespace leat::job

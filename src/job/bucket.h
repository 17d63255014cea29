// A job's checkpoints in object storage, before the job starts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "job/job.h"
#include "storage/object_store/object_store.h"

namespace leat::job {

// Throw std::invalid_argument with one line: the store cannot be reached, there is no such bucket, or the
// credentials are wrong.

// Checks the bucket of a job's checkpoints; does nothing for a job without a bucket. Refuses a new job if the
// bucket has checkpoints, and a job that is resumed from its directory if another coordinator has gone on
// from the bucket meanwhile. Returns the number of the term of a new job; 0: the next one of its directory.
uint64_t CheckBucket(const Job& job, bool resume);

// Copies the newest checkpoint at `location` ("s3://bucket/prefix") into `directory`, from which the job can
// then be resumed. `job_file`: may have the endpoint and the like; empty: the environment has them.
void FetchFromBucket(const std::string& location, const std::string& job_file, const std::string& directory);
// The bucket of a job file's section checkpoint; none: it names none.
std::optional<object_store::Settings> CheckpointBucket(const Config& config);
// The text names a bucket, and no directory.
bool IsBucket(const std::string& resume);

}  // namespace leat::job

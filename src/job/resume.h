// Checks of a job's directory before the job resumes from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "job/job.h"
#include "protocol/records/journal.h"
#include "storage/checkpoint/store.h"
#include "storage/object_store/object_store.h"
#include "stream/source.h"

namespace leat::job {

// All throw std::invalid_argument.

// Reads the job of a directory, as resolved by its last run.
Job ReadStored(const std::string& directory);
Job ReadStoredWithoutModel(const std::string& directory);  // Job::WithoutModel

// Throws if job.directory holds no job or another one (the message names the differing part), or if it has
// checkpoints and all are damaged. Reads all of the checkpoint that the job continues from.
checkpoint::IntactCheckpoint CheckResumable(const Job& job);
// A note, in one line, on damaged checkpoints: which they are, where they are kept, and from which one the
// job continues; empty if none are.
std::string DamageNote(const Job& job, const checkpoint::IntactCheckpoint& found);

// True if these texts (Config::ToYaml of resolved jobs) are the same job, wherever their directories are.
bool SameJob(const std::string& a, const std::string& b);
// True if job.directory holds exactly this job: processes of its last run can go on with it.
bool SameAsStored(const Job& job);

// Throws if a partition ends before an offset that the checkpoint or the journal names: new records would get
// offsets that count as trained. If the job sets `fail_on_data_loss: false`, empty records take the lost
// offsets instead, and `ranges` is updated. A server that has just become a partition's leader may
// not know yet how far it goes: for LossRules::leader_change since `short_since`, which this function sets
// and clears, the error is a StatusError with kUnavailable.
void CheckNoDataLoss(const Job& job, const protocol::RecoveredState& restored, stream::Source& source,
                     Time now, std::optional<Time>* short_since, std::vector<stream::PartitionRange>* ranges);

// A job's checkpoints in object storage, before the job starts.

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

// Checks of a job's directory before the job resumes from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "job/job.h"
#include "protocol/records/journal.h"
#include "storage/checkpoint/store.h"
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

}  // namespace leat::job

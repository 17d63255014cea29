// A resumed job keeps the part of its stream that it may still need, and is refused if that is gone.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "job/job.h"
#include "protocol/records/journal.h"
#include "storage/checkpoint/store.h"
#include "stream/source.h"

namespace leat::roles {

// Keeps retention from removing what the job may still want: everything from its oldest checkpoint on, as far
// as it is there, because that one may have to take the place of the newest. Also for a new job, which wants
// everything. kNotFound if records are gone that the checkpoint needs from which the job continues.
Status PinStream(const job::Job& job, stream::Source& source, const protocol::RecoveredState& restored,
                 const std::vector<stream::PartitionRange>& ranges);

// Calls `check`, which throws std::invalid_argument if the job cannot continue from the restored checkpoint.
// The error then also says why no newer one is used.
void WithDamage(const checkpoint::IntactCheckpoint& found, const std::function<void()>& check);

}  // namespace leat::roles

// What must be on disk before the coordinator's replies are sent.
#pragma once

#include "base/status.h"
#include "checkpoint/store.h"
#include "protocol/coordinator/coordinator.h"
#include "stream/source.h"

namespace leat::roles {

// Syncs the stream up to the ends of the record's cuts, then appends the record to the journal. The journal
// thus never names an offset that a power failure can take from the stream. Blocks. After a failure the record
// is not in the journal, and the call can be repeated.
Status WriteAhead(stream::Source& source, checkpoint::Store& store, const protocol::JournalRecord& record);

}  // namespace leat::roles

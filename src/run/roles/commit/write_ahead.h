// Writes that must be on disk before the coordinator's replies are sent.
#pragma once

#include <span>

#include "base/status.h"
#include "protocol/records/journal.h"
#include "storage/checkpoint/store.h"
#include "stream/source.h"

namespace leat::roles {

// Syncs the stream up to the ends of the records' cuts and label marks, then appends the records to the
// journal. The journal thus never names an offset that a power failure can take from the stream. Labels are
// the source's business: it marks only those that are on disk. Blocks. After a failure the journal has none
// of the records, and the call can be repeated.
Status WriteAhead(stream::Source& source, checkpoint::Store& store,
                  std::span<const protocol::JournalRecord> records);

}  // namespace leat::roles

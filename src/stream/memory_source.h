// Records held in memory as a sealed topic: what files become, and what tests stream from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stream/source.h"

namespace leat::stream {

// `records` cut into `partitions` (> 0) contiguous shares that differ by at most one record.
std::unique_ptr<Source> MakeMemorySource(RecordBatch records, uint32_t partitions);
// The same from texts.
std::unique_ptr<Source> MakeMemorySource(const std::vector<std::string>& records, uint32_t partitions);

}  // namespace leat::stream

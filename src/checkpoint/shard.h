// What the sources of this folder know of shards beyond store.h.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace leat::checkpoint {

// kDataLoss when the shard is missing, or with both values when its size is another.
Status CheckSize(const std::string& path, uint64_t bytes);
// The same, and reads the whole file: kDataLoss when the checksum is another.
Status VerifyFile(const std::string& path, uint64_t bytes, uint64_t checksum);

}  // namespace leat::checkpoint

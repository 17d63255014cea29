// What the sources of this folder know of shards beyond store.h.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace leat::checkpoint {

// Reads the whole file. kDataLoss with both values when size or checksum is another.
Status VerifyFile(const std::string& path, uint64_t bytes, uint64_t checksum);

}  // namespace leat::checkpoint

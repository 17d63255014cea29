// CRC-32C (Castagnoli), the checksum of iSCSI, S3 and TFRecord.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace leat {

uint32_t Crc32c(ByteView bytes);

}  // namespace leat

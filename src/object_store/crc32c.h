// CRC-32C (Castagnoli), which S3 verifies for an upload that names it. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace leat::object_store {

uint32_t Crc32c(ByteView bytes);
// The value of x-amz-checksum-crc32c: base64 of the four bytes, the most significant first.
std::string Crc32cHeader(ByteView bytes);

}  // namespace leat::object_store

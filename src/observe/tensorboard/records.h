// The framing of an event file: TensorFlow's TFRecord format. Pure.
//
//   file   = record*
//   record = length:u64 checksum(length):u32 data checksum(data):u32      little-endian
//
// A checksum is the CRC-32C of the bytes, rotated right by 15 bits, plus 0xa282ead8: a file that contains
// checksums of its own parts stays well distributed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::tensorboard {

uint32_t MaskedCrc32c(ByteView bytes);

// Appends a record.
void AppendRecord(ByteView data, std::string* file);

// The records of a file. kDataLoss, with a message that begins with `path`, at a checksum that does not
// match, and at a record that is cut off, such as one that is still being written.
Result<std::vector<ByteView>> ReadRecords(ByteView file, const std::string& path);

}  // namespace leat::tensorboard

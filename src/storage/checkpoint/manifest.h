// manifest.json: the contents of a complete checkpoint (docs/formats/checkpoint.md). Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/records/manifest.h"

namespace leat::checkpoint {

// JSON that ends with its own checksum, which detects every changed bit.
std::string EncodeManifest(const protocol::Manifest& manifest);

// kDataLoss, with a message that begins with `path`, for a changed byte or contradictory content: an invalid
// cut, a duplicate slice, a file name outside the directory. kFailedPrecondition if it is whole, but in
// another format.
Result<protocol::Manifest> ParseManifest(ByteView file, const std::string& path);

// The checksum that EncodeManifest appends to a text ending in an open object. The fuzzer needs it to reach
// the parser.
std::string ChecksumTail(std::string_view text);

}  // namespace leat::checkpoint

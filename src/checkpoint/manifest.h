// manifest.json: what one complete checkpoint holds (docs/formats/checkpoint.md). Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::checkpoint {

// JSON that ends in its own checksum, so that no bit of it can change unnoticed.
std::string EncodeManifest(const protocol::Manifest& manifest);

// kDataLoss, beginning with `path`, when a byte is not as it was written, or the content contradicts itself:
// a cut that is not valid, a slice that is there twice, a file name that leads elsewhere.
Result<protocol::Manifest> ParseManifest(ByteView file, const std::string& path);

// What EncodeManifest puts behind a text that ends in an open object: its checksum. For the fuzzer, which has
// to get past it.
std::string ChecksumTail(std::string_view text);

}  // namespace leat::checkpoint

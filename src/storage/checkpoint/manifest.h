// manifest.json: the contents of a complete checkpoint, in a directory or in a bucket
// (docs/formats/checkpoint.md). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/records/journal.h"
#include "protocol/records/manifest.h"

namespace leat::checkpoint {

// JSON that ends with its own checksum, which detects every changed bit.
std::string EncodeManifest(const protocol::Manifest& manifest);

// kDataLoss, with a message that begins with `path`, for a changed byte or contradictory content: an invalid
// cut, a duplicate slice, a file name outside the directory. kFailedPrecondition if it is whole, but in
// another format.
Result<protocol::Manifest> ParseManifest(ByteView file, const std::string& path);

// The manifest in a bucket (bucket/).
struct BucketManifest {
  uint64_t term = 0;  // term of the coordinator that wrote it, without the run
  protocol::Manifest manifest;
  std::string job;                               // as WriteJob gets it
  std::vector<protocol::JournalRecord> records;  // the journal's, without those about its members
};
// JSON that ends with its own checksum. kInvalidArgument if the job is not UTF-8.
Result<std::string> EncodeBucketManifest(const BucketManifest& manifest);
// As ParseManifest. Pure.
Result<BucketManifest> ParseBucketManifest(ByteView file, const std::string& name);

// The checksum that EncodeManifest appends to a text ending in an open object. The fuzzer needs it to reach
// the parser.
std::string ChecksumTail(std::string_view text);

}  // namespace leat::checkpoint

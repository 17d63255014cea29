#include <algorithm>
#include <utility>
#include <variant>

#include "base/hex.h"
#include "checkpoint/bucket/bucket.h"
#include "checkpoint/journal.h"
#include "checkpoint/json.h"
#include "checkpoint/manifest.h"

namespace leat::checkpoint {
namespace {

constexpr const char* kBucketFormat = "leat-bucket-checkpoint-1";

Bytes JournalOf(const std::string& digits) {
  std::optional<Bytes> bytes = FromHex(digits);
  if (!bytes) throw Malformed("the journal is not hexadecimal");
  return std::move(*bytes);
}

// What a job that is resumed elsewhere, by new processes, has no use for.
bool OfMembers(const protocol::JournalRecord& record) {
  return std::holds_alternative<protocol::MemberJoined>(record) ||
         std::holds_alternative<protocol::MembersLeft>(record) ||
         std::holds_alternative<protocol::SlicesPlaced>(record) ||
         std::holds_alternative<protocol::GroupNamed>(record) ||
         std::holds_alternative<protocol::JournalAgreed>(record);
}

}  // namespace

Result<std::string> EncodeBucketManifest(const BucketManifest& manifest) {
  Bytes journal = JournalHeader();
  for (const auto& record : manifest.records) {
    if (OfMembers(record)) continue;
    const Bytes encoded = EncodeRecord(record, journal.size());
    journal.insert(journal.end(), encoded.begin(), encoded.end());
  }
  std::string text;
  try {
    text = "{\n  \"format\": " + Json(kBucketFormat).dump() + ",\n  \"term\": " + Json(manifest.term).dump() +
           ",\n  \"manifest\": " + Json(EncodeManifest(manifest.manifest)).dump() +
           ",\n  \"job\": " + Json(manifest.job).dump() + ",\n  \"journal\": " + Json(ToHex(journal)).dump();
  } catch (const Json::exception&) {
    return Status(Code::kInvalidArgument, "the job is not UTF-8, which a manifest in a bucket has to be");
  }
  return text + ChecksumTail(text);
}

Result<BucketManifest> ParseBucketManifest(ByteView file, const std::string& name) {
  const auto damaged = [&](const std::string& why) { return Status(Code::kDataLoss, name + ": " + why); };
  const size_t tail_size = ChecksumTail("").size();
  if (file.size() < tail_size) return damaged("ends at byte " + std::to_string(file.size()));
  const std::string_view text = AsText(file.first(file.size() - tail_size));
  if (AsText(file.last(tail_size)) != ChecksumTail(text))
    return damaged("its " + std::to_string(text.size()) +
                   " bytes do not have the checksum that the file ends with");
  BucketManifest manifest;
  try {
    const Json json = ParseJson(std::string(text) + ChecksumTail(text));
    if (Text(json, "format") != kBucketFormat)
      return Status(Code::kFailedPrecondition,
                    name + ": format is '" + Text(json, "format") + "', not '" + kBucketFormat + "'");
    manifest.term = Unsigned(json, "term");
    manifest.job = Text(json, "job");
    LEAT_ASSIGN_OR_RETURN(manifest.manifest, ParseManifest(AsBytes(Text(json, "manifest")), name));
    LEAT_ASSIGN_OR_RETURN(JournalContents journal, ParseJournal(JournalOf(Text(json, "journal")), name));
    manifest.records = std::move(journal.records);
  } catch (const Malformed& e) {
    return damaged(e.what());
  }
  return manifest;
}

}  // namespace leat::checkpoint

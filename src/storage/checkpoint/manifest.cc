#include "storage/checkpoint/manifest.h"

#include <optional>
#include <utility>
#include <variant>

#include "base/encoding/printable.h"
#include "base/fields/json.h"
#include "storage/checkpoint/journal.h"

namespace leat::checkpoint {

std::string ChecksumTail(std::string_view text) {
  return ",\n  \"checksum\": \"" + ToHex(Checksum(AsBytes(text))) + "\"\n}\n";
}

namespace {

// ---- documents in JSON: an object with the format, the fields of a struct, each on a line of its own, and
// at the end the checksum of the text before it

struct DocumentHead {
  std::string format;
};
LEAT_FIELDS(DocumentHead, (format, AtMost(64)));

template <class T>
std::string EncodeDocument(std::string_view format, const T& value) {
  std::string text = "{\n  \"format\": \"" + std::string(format) + "\"";
  VisitFields(value, [&text](std::string_view name, const auto& field, const auto&... rules) {
    text.append(",\n  \"").append(name).append("\": ");
    text += JsonText(fields::JsonWriter::Value(field, rules...));
  });
  return text + ChecksumTail(text);
}

// kDataLoss with a message that begins with `path` if a byte has changed, kFailedPrecondition if it has
// another format.
Result<nlohmann::json> ReadDocument(ByteView file, const std::string& path, std::string_view format) {
  const size_t tail_size = ChecksumTail("").size();
  if (file.size() < tail_size)
    return Status(Code::kDataLoss, path + ": ends at byte " + std::to_string(file.size()));
  const std::string_view text = AsText(file.first(file.size() - tail_size));
  if (AsText(file.last(tail_size)) != ChecksumTail(text)) {
    return Status(Code::kDataLoss, path + ": checksum of " + std::to_string(text.size()) + " bytes is " +
                                       ToHex(Checksum(AsBytes(text))) + ", not what the file ends with");
  }
  LEAT_ASSIGN_OR_RETURN(nlohmann::json json, fields::ParseJson(AsText(file), path, Code::kDataLoss));
  LEAT_ASSIGN_OR_RETURN(const auto head, fields::ReadJson<DocumentHead>(json, path, Code::kDataLoss));
  if (head.format == format) return json;
  return Status(Code::kFailedPrecondition,
                path + ": format is '" + head.format + "', not '" + std::string(format) + "'");
}

template <class T>
Result<T> ParseDocument(ByteView file, const std::string& path, std::string_view format) {
  LEAT_ASSIGN_OR_RETURN(const nlohmann::json json, ReadDocument(file, path, format));
  return fields::ReadJson<T>(json, path, Code::kDataLoss);
}

constexpr std::string_view kManifestFormat = "leat-checkpoint-4";
constexpr std::string_view kBucketFormat = "leat-bucket-checkpoint-1";

// A BucketManifest as it is written.
struct BucketDocument {
  uint64_t term = 0;
  std::string manifest, job, journal;
};
LEAT_FIELDS(BucketDocument, (term), (manifest, AtMost(1 << 30)), (job, AtMost(1 << 30)),
            (journal, AtMost(1 << 30)));

// Records that are useless to a job which new processes resume elsewhere.
bool OfMembers(const protocol::JournalRecord& record) {
  return std::holds_alternative<protocol::MemberJoined>(record) ||
         std::holds_alternative<protocol::MembersLeft>(record) ||
         std::holds_alternative<protocol::SlicesPlaced>(record) ||
         std::holds_alternative<protocol::GroupNamed>(record) ||
         std::holds_alternative<protocol::JournalAgreed>(record);
}

}  // namespace

std::string EncodeManifest(const protocol::Manifest& manifest) {
  return EncodeDocument(kManifestFormat, manifest);
}

Result<protocol::Manifest> ParseManifest(ByteView file, const std::string& path) {
  return ParseDocument<protocol::Manifest>(file, path, kManifestFormat);
}

Result<std::string> EncodeBucketManifest(const BucketManifest& manifest) {
  Bytes journal = JournalHeader();
  for (const auto& record : manifest.records) {
    if (OfMembers(record)) continue;
    const Bytes encoded = EncodeRecord(record, journal.size());
    journal.insert(journal.end(), encoded.begin(), encoded.end());
  }
  if (ParsedJson(JsonText(fields::Json(manifest.job))).get_ref<const std::string&>() != manifest.job)
    return Status(Code::kInvalidArgument, "the job is not UTF-8, which a manifest in a bucket has to be");
  return EncodeDocument(kBucketFormat, BucketDocument{manifest.term, EncodeManifest(manifest.manifest),
                                                      manifest.job, ToHex(journal)});
}

Result<BucketManifest> ParseBucketManifest(ByteView file, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(const auto read, ParseDocument<BucketDocument>(file, name, kBucketFormat));
  LEAT_ASSIGN_OR_RETURN(protocol::Manifest manifest, ParseManifest(AsBytes(read.manifest), name));
  const std::optional<Bytes> journal = FromHex(read.journal);
  if (!journal) return Status(Code::kDataLoss, name + ": the journal is not hexadecimal");
  LEAT_ASSIGN_OR_RETURN(JournalContents contents, ParseJournal(*journal, name));
  return BucketManifest{read.term, std::move(manifest), read.job, std::move(contents.records)};
}

}  // namespace leat::checkpoint

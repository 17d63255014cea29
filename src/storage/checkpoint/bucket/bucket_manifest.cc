#include <optional>
#include <utility>
#include <variant>

#include "base/encoding/printable.h"
#include "storage/checkpoint/bucket/bucket.h"
#include "storage/checkpoint/document.h"
#include "storage/checkpoint/journal.h"

namespace leat::checkpoint {
namespace {

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

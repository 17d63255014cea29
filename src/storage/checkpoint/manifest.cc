#include "storage/checkpoint/manifest.h"

#include "base/encoding/printable.h"
#include "storage/checkpoint/document.h"

namespace leat::checkpoint {
namespace {

constexpr std::string_view kManifestFormat = "leat-checkpoint-4";

struct DocumentHead {
  std::string format;
};
LEAT_FIELDS(DocumentHead, (format, AtMost(64)));

}  // namespace

std::string ChecksumTail(std::string_view text) {
  return ",\n  \"checksum\": \"" + ToHex(Checksum(AsBytes(text))) + "\"\n}\n";
}

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

std::string EncodeManifest(const protocol::Manifest& manifest) {
  return EncodeDocument(kManifestFormat, manifest);
}

Result<protocol::Manifest> ParseManifest(ByteView file, const std::string& path) {
  return ParseDocument<protocol::Manifest>(file, path, kManifestFormat);
}

}  // namespace leat::checkpoint

#include "checkpoint/manifest.h"

#include <set>

#include "base/hex.h"
#include "checkpoint/file.h"
#include "checkpoint/json.h"

namespace leat::checkpoint {
namespace {

constexpr const char* kManifestFormat = "leat-checkpoint-3";

// Written as it is, by another version of the program.
struct OtherFormat : Malformed {
  using Malformed::Malformed;
};

Json ToJson(const protocol::Position& position) {
  return Json::array({position.epoch, position.offset});
}

protocol::Position ReadPosition(const Json& value) {
  if (List(value).size() != 2) throw Malformed("a position is [epoch, offset]");
  return {Unsigned32(value[0]), Unsigned(value[1])};
}

Json ToJson(const protocol::Fingerprint& fingerprint) {
  return Json::array({fingerprint.offset, ToHex(fingerprint.hash)});
}

protocol::Fingerprint ReadFingerprint(const Json& value) {
  if (List(value).size() != 2) throw Malformed("a fingerprint is [offset, hash]");
  return {Unsigned(value[0]), Hex(value[1])};
}

Json ToJson(const protocol::Cut& cut) {
  return {{"partition", cut.partition},
          {"after", ToJson(cut.after)},
          {"begin", ToJson(cut.begin)},
          {"end", cut.end},
          {"hash", ToHex(cut.hash)},
          {"batch_size", cut.batch_size},
          {"shuffle_seed", ToHex(cut.shuffle_seed)},
          {"run", cut.run}};
}

protocol::Cut ReadCut(const Json& value) {
  protocol::Cut cut;
  cut.partition = Unsigned32(At(value, "partition"));
  cut.after = ReadPosition(At(value, "after"));
  cut.begin = ReadPosition(At(value, "begin"));
  cut.end = Unsigned(value, "end");
  cut.hash = Hex(At(value, "hash"));
  cut.batch_size = Unsigned32(At(value, "batch_size"));
  cut.shuffle_seed = Hex(At(value, "shuffle_seed"));
  cut.run = Unsigned32(At(value, "run"));
  if (!cut.valid()) {
    throw Malformed("invalid cut: partition " + std::to_string(cut.partition) + " offsets " +
                    std::to_string(cut.begin.offset) + " to " + std::to_string(cut.end));
  }
  return cut;
}

Json ToJson(const protocol::ManifestShard& shard) {
  Json slices = Json::array();
  for (const auto& slice_incarnation : shard.slices) {
    slices.push_back(Json::array({slice_incarnation.slice.value, slice_incarnation.incarnation.value}));
  }
  return {{"file", shard.file},
          {"bytes", shard.bytes},
          {"checksum", ToHex(shard.checksum)},
          {"slices", std::move(slices)}};
}

protocol::ManifestShard ReadShard(const Json& value) {
  protocol::ManifestShard shard;
  shard.file = Text(value, "file");
  if (!IsPlainName(shard.file)) throw Malformed("'" + shard.file + "' is not a plain file name");
  shard.bytes = Unsigned(value, "bytes");
  shard.checksum = Hex(At(value, "checksum"));
  for (const Json& slice_incarnation : List(value, "slices")) {
    if (List(slice_incarnation).size() != 2) throw Malformed("a slice is [slice, incarnation]");
    shard.slices.push_back(
        {SliceId(Unsigned32(slice_incarnation[0])), Incarnation(Unsigned(slice_incarnation[1]))});
  }
  return shard;
}

template <class T>
Json ToJsonList(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(ToJson(value));
  return list;
}

protocol::Manifest ReadManifest(const Json& json) {
  if (Text(json, "format") != kManifestFormat) {
    throw OtherFormat("format is '" + Text(json, "format") + "', not '" + kManifestFormat + "'");
  }
  protocol::Manifest manifest;
  manifest.id = Unsigned(json, "id");
  manifest.directory = Text(json, "directory");
  if (!IsPlainName(manifest.directory))
    throw Malformed("'" + manifest.directory + "' is not a plain directory name");
  manifest.step = Unsigned(json, "step");
  manifest.events = Unsigned(json, "events");
  manifest.next_incarnation = Unsigned(json, "next_incarnation");
  for (const Json& position : List(json, "watermark")) manifest.watermark.push_back(ReadPosition(position));
  for (const Json& cut : List(json, "open")) manifest.open.push_back(ReadCut(cut));
  if (json.contains("fingerprints")) {
    for (const Json& fingerprint : List(json, "fingerprints"))
      manifest.fingerprints.push_back(ReadFingerprint(fingerprint));
  }
  std::set<SliceId> seen;
  for (const Json& shard : List(json, "shards")) {
    manifest.shards.push_back(ReadShard(shard));
    for (const auto& slice_incarnation : manifest.shards.back().slices) {
      if (!seen.insert(slice_incarnation.slice).second) {
        throw Malformed("slice " + std::to_string(slice_incarnation.slice.value) + " appears twice");
      }
    }
  }
  return manifest;
}

}  // namespace

std::string ChecksumTail(std::string_view text) {
  return ",\n  \"checksum\": \"" + ToHex(Checksum(AsBytes(text))) + "\"\n}\n";
}

std::string EncodeManifest(const protocol::Manifest& manifest) {
  // One member per line; the closing brace comes with the checksum.
  std::string text = "{";
  const auto put = [&text](const char* key, const Json& value) {
    text += text.size() > 1 ? ",\n  \"" : "\n  \"";
    text += key;
    text += "\": " + value.dump();
  };
  put("format", kManifestFormat);
  put("id", manifest.id);
  put("directory", manifest.directory);
  put("step", manifest.step);
  put("events", manifest.events);
  put("next_incarnation", manifest.next_incarnation);
  put("watermark", ToJsonList(manifest.watermark));
  put("open", ToJsonList(manifest.open));
  if (!manifest.fingerprints.empty()) put("fingerprints", ToJsonList(manifest.fingerprints));
  put("shards", ToJsonList(manifest.shards));
  return text + ChecksumTail(text);
}

Result<protocol::Manifest> ParseManifest(ByteView file, const std::string& path) {
  const auto damaged = [&](const std::string& why) { return Status(Code::kDataLoss, path + ": " + why); };
  const size_t tail_size = ChecksumTail("").size();
  if (file.size() < tail_size) return damaged("ends at byte " + std::to_string(file.size()));
  const std::string_view text = AsText(file.first(file.size() - tail_size));
  const std::string tail = ChecksumTail(text);
  if (AsText(file.last(tail_size)) != tail) {
    return damaged("checksum of " + std::to_string(text.size()) + " bytes is " +
                   ToHex(Checksum(AsBytes(text))) + ", not what the file ends with");
  }
  try {
    return ReadManifest(ParseJson(std::string(text) + tail));
  } catch (const OtherFormat& e) {
    return Status(Code::kFailedPrecondition, path + ": " + e.what());
  } catch (const Malformed& e) {
    return damaged(e.what());
  }
}

}  // namespace leat::checkpoint

#include "storage/checkpoint/safetensors.h"

#include <algorithm>

#include "base/fields/json.h"

namespace leat::checkpoint {
namespace {

constexpr uint64_t kAlignment = 64;
// A tensor as others write it, too: any number of dimensions.
struct TensorEntry {
  ShardType dtype = ShardType::kF32;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> data_offsets;
};
LEAT_FIELDS(TensorEntry, (dtype), (shape, AtMost(8)), (data_offsets, AtMost(2)));

Status Check(const TensorEntry& entry) {
  const auto invalid = [](const std::string& why) { return Status(Code::kInvalidArgument, why); };
  if (entry.data_offsets.size() != 2) return invalid("it has no two data_offsets");
  if (entry.shape.size() != 1) return invalid("its rank is " + std::to_string(entry.shape.size()));
  const uint64_t begin = entry.data_offsets[0], end = entry.data_offsets[1];
  if (end >= begin && (end - begin) % SizeOf(entry.dtype) == 0 &&
      (end - begin) / SizeOf(entry.dtype) == entry.shape[0]) {
    return {};
  }
  return invalid("it has " + std::to_string(entry.shape[0]) + " elements at bytes " + std::to_string(begin) +
                 " to " + std::to_string(end));
}

}  // namespace

Result<std::string> EncodeSafetensorsHeader(const SafetensorsHeader& head) {
  fields::Json json = {{"__metadata__", head.metadata}};
  // Names differ. By name, each new member would be searched for among all others.
  auto& members = json.get_ref<fields::Json::object_t&>();
  for (const auto& tensor : head.tensors) {
    const TensorEntry entry{tensor.type, {tensor.elements()}, {tensor.begin, tensor.end}};
    members.emplace_back(tensor.name, fields::JsonWriter::Value(entry));
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception& e) {
    return Status(Code::kInvalidArgument, std::string("names of a checkpoint's tensors: ") + e.what());
  }
  const uint64_t used = sizeof(uint64_t) + text.size();
  text.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  if (text.size() > SafetensorsHeader::kMaxBytes) {
    return Status(Code::kInvalidArgument, "a shard's head has " + std::to_string(text.size()) +
                                              " bytes, at most " +
                                              std::to_string(SafetensorsHeader::kMaxBytes));
  }
  ByteWriter out;
  out.Put(static_cast<uint64_t>(text.size()));
  out.PutRaw(AsBytes(text));
  return std::string(AsText(out.view()));
}

Result<SafetensorsHeader> ParseSafetensorsHeader(ByteView bytes, uint64_t data_bytes,
                                                 const std::string& path) {
  const auto damaged = [&path](const std::string& why) {
    return Status(Code::kDataLoss, path + ": safetensors head: " + why);
  };
  SafetensorsHeader head;
  const nlohmann::json json = IsShallowJson(AsText(bytes), 8) ? ParsedJson(AsText(bytes)) : nlohmann::json();
  if (!json.is_object()) return damaged("is no JSON object, or nested too deep");
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) return damaged("'" + key + "' is no text");
        head.metadata[key] = value.get<std::string>();
      }
      continue;
    }
    LEAT_ASSIGN_OR_RETURN(const auto tensor, fields::ReadJson<TensorEntry>(
                                                 entry, path + ": tensor '" + name + "'", Code::kDataLoss));
    head.tensors.push_back({name, tensor.data_offsets[0], tensor.data_offsets[1], tensor.dtype});
  }
  std::sort(head.tensors.begin(), head.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  for (const auto& tensor : head.tensors) {
    if (tensor.begin != at) {
      return damaged("tensor '" + tensor.name + "' begins at byte " + std::to_string(tensor.begin) +
                     ", the one before it ended at " + std::to_string(at));
    }
    at = tensor.end;
  }
  if (at == data_bytes) return head;
  return damaged("tensors take " + std::to_string(at) + " of " + std::to_string(data_bytes) + " bytes");
}

}  // namespace leat::checkpoint

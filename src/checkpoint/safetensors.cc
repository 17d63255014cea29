#include "checkpoint/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/json.h"

namespace leat::checkpoint {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr std::pair<const char*, ShardType> kTypes[] = {
    {"F32", ShardType::kF32}, {"F64", ShardType::kF64}, {"U64", ShardType::kU64}};

TensorInfo ReadPlace(const std::string& name, const Json& entry) {
  const std::string dtype = Text(entry, "dtype");
  const auto type = std::ranges::find(kTypes, dtype, &std::pair<const char*, ShardType>::first);
  if (type == std::end(kTypes)) throw Malformed("tensor '" + name + "' is " + dtype);
  const Json& offsets = List(entry, "data_offsets");
  const Json& shape = List(entry, "shape");
  if (offsets.size() != 2) throw Malformed("tensor '" + name + "' has no two data_offsets");
  if (shape.size() != 1) throw Malformed("tensor '" + name + "' has rank " + std::to_string(shape.size()));
  TensorInfo place{name, Unsigned(offsets[0]), Unsigned(offsets[1]), type->second};
  const uint64_t elements = Unsigned(shape[0]);
  if (place.end < place.begin || (place.end - place.begin) % SizeOf(place.type) != 0 ||
      place.elements() != elements) {
    throw Malformed("tensor '" + name + "' has " + std::to_string(elements) + " elements at bytes " +
                    std::to_string(place.begin) + " to " + std::to_string(place.end));
  }
  return place;
}

}  // namespace

Result<std::string> EncodeSafetensorsHeader(const SafetensorsHeader& head) {
  nlohmann::ordered_json json;
  json["__metadata__"] = head.metadata;
  for (const auto& tensor : head.tensors) {
    json[tensor.name] = {{"dtype", kTypes[static_cast<size_t>(tensor.type)].first},
                         {"shape", Json::array({tensor.elements()})},
                         {"data_offsets", Json::array({tensor.begin, tensor.end})}};
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
  SafetensorsHeader head;
  try {
    const Json json = ParseJson(AsText(bytes));
    for (const auto& [name, entry] : json.items()) {
      if (name == "__metadata__") {
        for (const auto& [key, value] : entry.items()) head.metadata[key] = Text(value);
      } else {
        head.tensors.push_back(ReadPlace(name, entry));
      }
    }
    std::sort(head.tensors.begin(), head.tensors.end(), [](const auto& a, const auto& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    uint64_t at = 0;
    for (const auto& tensor : head.tensors) {
      if (tensor.begin != at) {
        throw Malformed("tensor '" + tensor.name + "' begins at byte " + std::to_string(tensor.begin) +
                        ", the one before it ended at " + std::to_string(at));
      }
      at = tensor.end;
    }
    if (at != data_bytes) {
      throw Malformed("tensors take " + std::to_string(at) + " of " + std::to_string(data_bytes) + " bytes");
    }
  } catch (const Malformed& e) {
    return Status(Code::kDataLoss, path + ": safetensors head: " + e.what());
  }
  return head;
}

}  // namespace leat::checkpoint

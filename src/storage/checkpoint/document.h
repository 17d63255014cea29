// Documents in JSON: an object with the format, the fields of a struct, each on a line of its own, and at the
// end the checksum of the text before it. Only sources of this folder include this.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/fields/json.h"
#include "base/status.h"
#include "storage/checkpoint/manifest.h"

namespace leat::checkpoint {

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
Result<nlohmann::json> ReadDocument(ByteView file, const std::string& path, std::string_view format);

template <class T>
Result<T> ParseDocument(ByteView file, const std::string& path, std::string_view format) {
  LEAT_ASSIGN_OR_RETURN(const nlohmann::json json, ReadDocument(file, path, format));
  return fields::ReadJson<T>(json, path, Code::kDataLoss);
}

}  // namespace leat::checkpoint

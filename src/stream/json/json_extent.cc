#include "stream/json/json_extent.h"

#include <algorithm>
#include <cstdint>

#include "stream/decode/row_writer.h"

namespace leat::stream {

size_t EndOfJson(std::string_view text) {
  size_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      while (++i < text.size() && text[i] != '"') i += text[i] == '\\';
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && (depth <= 1 || --depth == 0)) {
      return i + 1;
    }
  }
  return text.npos;
}

std::string WhyNoJson(std::string_view token) {
  return Quoted(token) + " is no JSON" + (IsInfinity(token) ? "; write null, or leave it out" : "");
}

std::string WhyNoObject(std::string_view record) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  constexpr size_t kRegistryBytes = 5;  // 0, and the id of a schema in four bytes
  if (record.starts_with(kMark)) return "it begins with a byte order mark";
  if (record.size() > kRegistryBytes && record[0] == '\0') {
    uint32_t id = 0;
    for (size_t i = 1; i < kRegistryBytes; ++i) id = id << 8 | static_cast<unsigned char>(record[i]);
    return "it begins with the 5 bytes of a schema registry, 0 and the id of schema " + std::to_string(id) +
           (record[kRegistryBytes] == '{' ? "; its producer needs a plain JSON serializer"
                                          : ", and is no JSON; is it of the format avro or protobuf?");
  }
  const auto begin = std::min(record.find_first_not_of(" \t\r\n"), record.size());
  if (!record.substr(begin).starts_with('{')) return "";
  const size_t size = EndOfJson(record.substr(begin));
  if (size == record.npos) return "";
  std::string_view rest = record.substr(begin + size);
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
  rest = rest.substr(0, rest.find_last_not_of(" \t\r\n") + 1);
  return rest.empty() ? "" : Quoted(rest) + " follows it";
}

}  // namespace leat::stream

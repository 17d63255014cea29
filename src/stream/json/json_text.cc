#include "stream/json/json_text.h"

#include <algorithm>

#include "base/text.h"
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
  if (record.starts_with(kMark)) return "it begins with a byte order mark";
  if (record.size() > kFrameBytes && IsFramed(AsBytes(record))) {
    return StrCat("it begins with the 5 bytes of a schema registry, 0 and the id of schema ",
                  SchemaIdOf(AsBytes(record)),
                  record[kFrameBytes] == '{' ? "; its producer needs a plain JSON serializer"
                                             : ", and is no JSON; is it of the format avro or protobuf?");
  }
  const auto begin = std::min(record.find_first_not_of(" \t\r\n"), record.size());
  if (!record.substr(begin).starts_with('{')) return "";
  const size_t size = EndOfJson(record.substr(begin));
  if (size == record.npos) return "";
  const std::string_view rest = Trimmed(record.substr(begin + size));
  return rest.empty() ? "" : Quoted(rest) + " follows it";
}

}  // namespace leat::stream

#include "serve/json_text.h"

#include <nlohmann/json.hpp>

#include "base/json/text.h"
#include "stream/file/file_reader.h"

namespace leat::serve {

Result<std::string_view> TextOf(std::string_view body) {
  if (body.starts_with("\xFF\xFE") || body.starts_with("\xFE\xFF"))
    return Status(Code::kInvalidArgument, "the body is in UTF-16; send UTF-8");
  if (body.starts_with(stream::kByteOrderMark)) body.remove_prefix(stream::kByteOrderMark.size());
  return body;
}

void AppendString(std::string_view text, std::string* out) {
  *out += JsonText(nlohmann::json(text));
}

}  // namespace leat::serve

#include "stream/decode/text_hint.h"

#include <algorithm>
#include <cctype>

#include "base/config/config_text.h"
#include "stream/decode/decoder.h"
#include "stream/decode/row_writer.h"

namespace leat::stream {

bool IsMissing(std::string_view text) {
  static constexpr std::string_view kWords[] = {"", "-", "?", "n/a", "na", "nan", "null"};
  std::string lower;
  for (const char c : text.substr(0, 8))
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::find(kWords, lower) != std::end(kWords);
}

std::string YamlText(std::string_view text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '+';
  };
  const bool begins = !text.empty() && text[0] != '-' && text[0] != '.';
  if (begins && std::ranges::all_of(text, plain) && !IsMissing(text)) return std::string(text);
  return config_text::DoubleQuoted(text);
}

void TextHint::See(const DecodedRows::DeadLetter& letter) {
  // The field's own name comes from a header that was read as a record.
  if (letter.field.empty() || letter.text == letter.field || IsMissing(letter.text)) return;
  if (!fields_.contains(letter.field) && fields_.size() == kMaxFields) return;
  Texts& texts = fields_[letter.field];
  ++texts.count;
  if (texts.values.contains(letter.text)) {
    ++texts.repeats;
    return;
  }
  if (texts.values.size() < kMaxValues) {
    texts.values.insert(letter.text);
  } else {
    texts.more = true;
  }
}

std::string TextHint::Describe() const {
  const auto most =
      std::ranges::max_element(fields_, {}, [](const auto& field) { return field.second.count; });
  if (most == fields_.end()) return "";
  // Texts that hardly repeat are not categories.
  if (most->second.more && most->second.repeats * 20 < most->second.count) return "";
  std::string values;
  for (const std::string& value : most->second.values)
    values += (values.empty() ? "" : ", ") + YamlText(value);
  return "; `type: category, values: [" + values + (most->second.more ? ", ..." : "") + "]` would read " +
         Quoted(most->first);
}

}  // namespace leat::stream

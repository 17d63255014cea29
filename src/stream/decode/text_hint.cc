#include "stream/decode/text_hint.h"

#include <algorithm>
#include <cctype>

#include "base/config/config_text.h"
#include "stream/csv/split.h"
#include "stream/decode/decoder.h"
#include "stream/decode/row_writer.h"

namespace leat::stream {

namespace {

constexpr size_t kLongestMissing = 10;
// A field is taken for a category if at most one record fits for every ten that do not.
constexpr uint64_t kFewFit = 10;

std::string LowerText(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// 1,234 or 1,234,567: each comma has three digits after it.
bool MaySeparateThousands(std::string_view number) {
  const auto digits = [](std::string_view text) {
    return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  if (number.starts_with('-')) number.remove_prefix(1);
  size_t comma = number.find(',');
  if (comma == number.npos || comma == 0 || comma > 3 || !digits(number.substr(0, comma))) return false;
  for (; comma != number.npos; comma = number.find(',', comma + 1)) {
    const std::string_view after = number.substr(comma + 1, number.find(',', comma + 1) - comma - 1);
    if (after.size() != 3 || !digits(after)) return false;
  }
  return true;
}

}  // namespace

bool IsMissing(std::string_view text) {
  static constexpr std::string_view kWords[] = {"",     "-",    "--",     "?",      ".",   "n/a",
                                                "#n/a", "n.a.", "na",     "<na>",   "#na", "nan",
                                                "-nan", "null", "<null>", "(null)", "\\n"};
  return text.size() <= kLongestMissing && std::ranges::find(kWords, LowerText(text)) != std::end(kWords);
}

bool IsMissingNumber(std::string_view text) {
  static constexpr std::string_view kWords[] = {"none",    "nil",     "missing", "unknown", "undefined",
                                                "#value!", "#div/0!", "#ref!",   "#num!",   "#name?"};
  return IsMissing(text) ||
         (text.size() <= kLongestMissing && std::ranges::find(kWords, LowerText(text)) != std::end(kWords));
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
  const auto has_comma = [](const std::string& text) {
    double number;
    return text.find(',') != text.npos && CsvNumber(text, ',', &number);
  };
  if (csv_ && std::ranges::all_of(most->second.values, MaySeparateThousands)) return "";
  if (csv_ && std::ranges::all_of(most->second.values, has_comma))
    return "; `decimal: \",\"`, a setting of the schema, would read " + Quoted(most->first);
  if (fitting_ * kFewFit > most->second.count) return "";
  // Texts that hardly repeat are not categories.
  if (most->second.more && most->second.repeats * 20 < most->second.count) return "";
  std::string values;
  for (const std::string& value : most->second.values)
    values += (values.empty() ? "" : ", ") + YamlText(value);
  return "; `type: category, values: [" + values + (most->second.more ? ", ..." : "") + "]` would read " +
         Quoted(most->first);
}

}  // namespace leat::stream

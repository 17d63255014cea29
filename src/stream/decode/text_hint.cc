#include "stream/decode/text_hint.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "base/config/config_text.h"
#include "base/text.h"
#include "stream/csv/split.h"
#include "stream/decode/row_writer.h"

namespace leat::stream {
namespace {

constexpr size_t kLongestMissing = 10;
// A field is taken for a category if at most one record fits for every ten that do not.
constexpr uint64_t kFewFit = 10;

bool IsAmong(std::span<const std::string_view> words, std::string_view text) {
  text = TrimBlanks(text);
  return text.size() <= kLongestMissing && std::ranges::find(words, Lower(text)) != words.end();
}

}  // namespace

bool IsMissing(std::string_view text) {
  static constexpr std::string_view kWords[] = {
      "",    "-",    "--",   "?",      ".",      "n/a", "#n/a",   "#n/a n/a", "n.a.",    "<na>",    "#na",
      "nan", "-nan", "null", "<null>", "(null)", "\\n", "1.#ind", "-1.#ind",  "1.#qnan", "-1.#qnan"};
  // In lower case, na can be a code among others.
  return IsAmong(kWords, text) || TrimBlanks(text) == "NA";
}

bool IsMissingNumber(std::string_view text) {
  static constexpr std::string_view kWords[] = {"na",        "none",    "nil",     "missing", "unknown",
                                                "undefined", "#value!", "#div/0!", "#ref!",   "#num!",
                                                "#name?",    "nat",     "*",       "**",      "***"};
  const std::string_view bare = TrimBlanks(text);
  // SAS has a missing value for each letter.
  const bool dotted = bare.size() == 2 && bare[0] == '.' &&
                      (std::isalpha(static_cast<unsigned char>(bare[1])) != 0 || bare[1] == '_');
  return dotted || IsMissing(text) || IsAmong(kWords, text);
}

bool InThousands(std::string_view text, std::string_view separator) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.starts_with('0')) return false;
  size_t groups = 0;
  for (;; ++groups) {
    const size_t end = text.find(separator);
    const std::string_view group = text.substr(0, end);
    const bool digits = std::ranges::all_of(group, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!digits || group.empty() || group.size() > 3 || (groups > 0 && group.size() != 3)) return false;
    if (end == text.npos) return groups > 0;
    text.remove_prefix(end + separator.size());
  }
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
  const auto thousands = [](const std::string& text) { return InThousands(text, ","); };
  if (csv_ && std::ranges::all_of(most->second.values, thousands)) return "";
  if (csv_ && std::ranges::all_of(most->second.values, has_comma))
    return "; `decimal: \",\"`, a setting of the schema, would read " + Quoted(most->first);
  if (fitting_ * kFewFit > most->second.count) return "";
  // Texts that hardly repeat are not categories.
  if (most->second.more && most->second.repeats * 20 < most->second.count) return "";
  return "; `type: category, values: [" + Joined(most->second.values, ", ", YamlText) +
         (most->second.more ? ", ..." : "") + "]` would read " + Quoted(most->first);
}

}  // namespace leat::stream

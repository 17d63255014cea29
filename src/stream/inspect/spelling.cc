#include "stream/inspect/spelling.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>

#include "stream/csv/split.h"

namespace leat::stream {

const Spelling kInQuotes{"in quotes", "write them without quotes"};

namespace {

constexpr size_t kLongestSpelling = 40;
constexpr Spelling kDecimalComma{"with a decimal comma",
                                 "`decimal: \",\"` reads them if no column has a dot"};
constexpr Spelling kCommaOrThousands{"with a comma, decimal or of thousands",
                                     "write them with a dot or without"};
constexpr Spelling kThousands{"with separators of thousands", "write them without"};
constexpr Spelling kCurrency{"with a sign of currency", "write them without"};
constexpr Spelling kPercent{"with a percent sign", "write them without"};
constexpr Spelling kNoBreakSpace{"with a no-break space", "write them without"};
constexpr Spelling kMinus{"with the minus sign U+2212", "write - in its place"};
constexpr Spelling kInfinite{"that are infinite or undefined", "leave them empty"};

// Removes any of the parts from the text's ends, and blanks; true if there was one.
bool Strip(std::initializer_list<std::string_view> parts, std::string_view* text) {
  const auto trim = [text] {
    while (text->starts_with(' ')) text->remove_prefix(1);
    while (text->ends_with(' ')) text->remove_suffix(1);
  };
  for (const std::string_view part : parts) {
    const bool before = text->starts_with(part), behind = !before && text->ends_with(part);
    if (before) text->remove_prefix(part.size());
    if (behind) text->remove_suffix(part.size());
    trim();
    if (before || behind) return true;
  }
  return false;
}

// Groups of three digits behind the first separator: 1.234.567.
bool InThousands(std::string_view text, std::string_view separator) {
  if (text.starts_with('-')) text.remove_prefix(1);
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

bool HasThousands(std::string_view text) {
  for (const std::string_view separator : {",", ".", " ", "'", "\u00a0", "\u202f", "\u2019"}) {
    for (const char decimal : {'.', ','}) {
      if (separator[0] == decimal) continue;
      const size_t point = text.rfind(decimal);
      const std::string_view rest = point == text.npos ? "" : text.substr(point + 1);
      const bool digits = std::ranges::all_of(rest, [](unsigned char c) { return std::isdigit(c) != 0; });
      if (digits && InThousands(text.substr(0, point), separator)) return true;
    }
  }
  return false;
}

bool IsInfinite(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string_view word = lower;
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  return word == "inf" || word == "infinity" || word.starts_with("1.#inf") || word.starts_with("1.#qnan") ||
         word.starts_with("1.#snan") || word.starts_with("1.#ind");
}

}  // namespace

const Spelling* SpellingOf(std::string_view text) {
  if (text.size() > kLongestSpelling || IsCsvNumber(text)) return nullptr;
  if (IsInfinite(text)) return &kInfinite;
  if (text.find_first_of("0123456789") == text.npos) return nullptr;
  const auto number = [](std::string_view rest) {
    return IsCsvNumber(rest) || IsCsvNumber(rest, ',') || HasThousands(rest);
  };
  std::string_view rest = text;
  if (Strip({"\u2212"}, &rest) && text.starts_with("\u2212") && number(rest)) return &kMinus;
  rest = text;
  if (Strip({"%"}, &rest) && text.ends_with('%') && number(rest)) return &kPercent;
  rest = text;
  if (Strip({"\u00a0", "\u202f"}, &rest) && number(rest)) return &kNoBreakSpace;
  rest = text.substr(text.starts_with('-') ? 1 : 0);
  if (Strip({"$", "€", "£", "¥", "USD", "EUR", "GBP"}, &rest) && number(rest)) return &kCurrency;
  if (text.find(',') != text.npos && IsCsvNumber(text, ','))
    return InThousands(text, ",") ? &kCommaOrThousands : &kDecimalComma;
  return HasThousands(text) ? &kThousands : nullptr;
}

}  // namespace leat::stream

#include "stream/inspect/spelling.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/text.h"
#include "stream/csv/split.h"
#include "stream/decode/text_hint.h"

namespace leat::stream {

const Spelling kInQuotes{"in quotes", "write them without quotes"};

namespace {

constexpr size_t kLongestSpelling = 40;
constexpr Spelling kDecimalComma{"with a decimal comma",
                                 "--decimal , reads them in CSV, and no numbers with a dot"};
constexpr Spelling kDecimalDot{"with a decimal dot", "--decimal . reads them, and no numbers with a comma"};
constexpr Spelling kCommaOrThousands{"with a comma, decimal or of thousands",
                                     "--decimal , reads decimal ones in CSV; write others without"};
constexpr Spelling kThousands{"with separators of thousands", "write them without"};
constexpr Spelling kCurrency{"with a sign of currency", "write them without"};
constexpr Spelling kPercent{"with a percent sign", "write them without"};
constexpr Spelling kNoBreakSpace{"with a no-break space", "write them without"};
constexpr Spelling kMinus{"with the minus sign U+2212", "write - in its place"};
constexpr Spelling kInfinite{"that are infinite or undefined", "leave them empty"};
constexpr Spelling kParentheses{"in parentheses", "write - in their place"};
constexpr Spelling kBound{"with < or >", "write them without"};
constexpr Spelling kUnit{"with a unit", "write them without, all in the same one"};
constexpr Spelling kHexadecimal{"in hexadecimal", "write them in decimal"};
constexpr Spelling kExponent{"with D before the exponent", "write E in its place"};
constexpr Spelling kTimeOfDay{"of dates or times", "write them as numbers, such as seconds"};

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

bool HasThousands(std::string_view text) {
  for (const std::string_view separator : {",", ".", " ", "'", "_", "\u00a0", "\u202f", "\u2019"}) {
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
  const std::string lower = Lower(text);
  std::string_view word = lower;
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  return word == "inf" || word == "infinity" || word.starts_with("1.#inf") || word.starts_with("1.#qnan") ||
         word.starts_with("1.#snan") || word.starts_with("1.#ind");
}

// 1.5 kg, 12K, 3ms.
bool EndsWithUnit(std::string_view text, std::string_view* number) {
  static constexpr std::string_view kTouching[] = {"K",  "M",  "k",  "kg", "mg", "km", "cm",
                                                   "mm", "ms", "kB", "KB", "MB", "GB", "TB"};
  constexpr size_t kLongestUnit = 6;
  const auto letter = [](unsigned char c) { return std::isalpha(c) != 0 || c >= 0x80; };
  size_t begin = text.size();
  while (begin > 0 && letter(static_cast<unsigned char>(text[begin - 1]))) --begin;
  const std::string_view unit = text.substr(begin);
  *number = TrimBlanks(text.substr(0, begin));
  return !unit.empty() && unit.size() <= kLongestUnit &&
         (number->size() < begin || std::ranges::find(kTouching, unit) != std::end(kTouching));
}

bool IsHexadecimal(std::string_view text) {
  return text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') &&
         std::ranges::all_of(text.substr(2), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// 0.5D+02, as Fortran writes.
bool HasFortranExponent(std::string_view text) {
  std::string number(text);
  const size_t at = number.find_first_of("Dd");
  if (at == number.npos) return false;
  number[at] = 'E';
  return IsCsvNumber(number);
}

// 2024-01-31, 31.1.2024, 1/31/2024, 12:00, with a time or alone.
bool IsTime(std::string_view text) {
  std::string shape;  // digits as the length of their run: 4-2-2
  size_t digits = 0;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      ++digits;
      continue;
    }
    if (digits > 0) shape += std::to_string(std::exchange(digits, 0));
    if (std::string_view("-/.:+ TZAPMapm").find(c) == std::string_view::npos) return false;
    shape += c;
  }
  if (digits > 0) shape += std::to_string(digits);
  const auto begins_with = [&](std::string_view day) {
    return shape.starts_with(day) &&
           (shape.size() == day.size() || shape[day.size()] == ' ' || shape[day.size()] == 'T');
  };
  static constexpr std::string_view kDays[] = {"4-2-2", "4/2/2", "1.1.4", "1.2.4", "2.1.4", "2.2.4", "1/1/4",
                                               "1/2/4", "2/1/4", "2/2/4", "1/1/2", "1/2/2", "2/1/2", "2/2/2"};
  return shape.starts_with("1:2") || shape.starts_with("2:2") || std::ranges::any_of(kDays, begins_with);
}

}  // namespace

const Spelling* SpellingOf(std::string_view text, char decimal) {
  text = TrimBlanks(text);
  if (text.size() > kLongestSpelling || IsCsvNumber(text, decimal)) return nullptr;
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
  if (text.starts_with('(') && text.ends_with(')') && number(TrimBlanks(text.substr(1, text.size() - 2))))
    return &kParentheses;
  rest = text;
  if (Strip({"<=", ">=", "<", ">", "\u2264", "\u2265"}, &rest) && !text.ends_with('>') &&
      !text.ends_with('<') && number(rest))
    return &kBound;
  if (EndsWithUnit(text, &rest) && number(rest)) return &kUnit;
  if (IsHexadecimal(text)) return &kHexadecimal;
  if (HasFortranExponent(text)) return &kExponent;
  if (decimal != '.' && IsCsvNumber(text)) return InThousands(text, ".") ? &kThousands : &kDecimalDot;
  if (decimal != ',' && IsCsvNumber(text, ','))
    return InThousands(text, ",") ? &kCommaOrThousands : &kDecimalComma;
  if (HasThousands(text)) return &kThousands;
  return IsTime(text) ? &kTimeOfDay : nullptr;
}

}  // namespace leat::stream

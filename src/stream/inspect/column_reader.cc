#include "stream/inspect/column_reader.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include "base/rng.h"
#include "base/text.h"
#include "stream/csv/csv.h"
#include "stream/decode/decoder.h"
#include "stream/decode/text.h"

namespace leat::stream {
namespace {

constexpr size_t kBytesOfAnEntry = 96;  // memory of a text's map entry
// A column has its first number of another spelling among so many values, or none.
constexpr uint64_t kSpelledWithin = 10'000;
// A longer text is not a category.
constexpr size_t kMaxText = 256;

// Digits with zeros before them.
bool IsCode(std::string_view text) {
  text = TrimBlanks(text);
  return text.size() > 1 && text[0] == '0' && std::ranges::all_of(text, IsDigit);
}

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
  for (const std::string_view part : parts) {
    const bool before = text->starts_with(part), behind = !before && text->ends_with(part);
    if (before) text->remove_prefix(part.size());
    if (behind) text->remove_suffix(part.size());
    *text = Trimmed(*text, " ");
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

void ColumnReader::Add(std::string_view text, const double* number, char decimal) {
  ++column_.values;
  Distinguish(text);
  if (number == nullptr) {
    // A column of texts is not looked at for ever.
    if (!column_.spelled.empty() || column_.values < kSpelledWithin)
      AddSpelling(SpellingOf(text, decimal), text);
    if (IsMissingNumber(text)) {
      ++word_count_;
      words_.emplace(text);
    } else if (column_.text.empty()) {
      column_.text = CutUtf8(text, kMaxText);
    }
    return;
  }
  column_.codes = column_.codes || IsCode(text);
  const double x = *number;
  column_.min = column_.numbers == 0 ? x : std::min(column_.min, x);
  column_.max = column_.numbers == 0 ? x : std::max(column_.max, x);
  column_.whole = column_.whole && x == std::floor(x);
  if (column_.numbers == 1) step_ = x - last_;
  if (column_.numbers > 0 && (x - last_ != step_ || step_ <= 0)) column_.rising = false;
  last_ = x;
  ++column_.numbers;
  plain_.Add(x);
  if (x > -1) logs_.Add(std::log1p(x));
}

void ColumnReader::AddText(std::string_view text) {
  Add(text, nullptr);
  if (!IsCode(text) && IsCsvNumber(text)) AddSpelling(&kInQuotes, text);
}

void ColumnReader::AddSign(std::string_view text) {
  is_csv() ? AddAbsent() : AddMissing();
  ++signs_[std::string(text)];
}

void ColumnReader::TakeSigns() {
  for (const auto& [text, count] : std::exchange(signs_, {})) {
    column_.missing -= count;
    if (is_csv()) column_.absent -= count;
    for (uint64_t i = 0; i < count; ++i) Add(text, nullptr);
  }
}

void ColumnReader::TakeWords() {
  column_.values -= word_count_;
  AddAbsent(word_count_);
  for (const std::string& word : words_) {
    hashes_.erase(Mix(HashName(word)));
    column_.texts.erase(word);
  }
  word_count_ = 0;
}

Column ColumnReader::Finish(char decimal) {
  if (column_.texts.size() == hashes_.size()) MergeSpellings(decimal);
  column_.distinct = column_.texts.empty() ? hashes_.size() : column_.texts.size();
  if (column_.text.empty() && word_count_ > 0) column_.text = *words_.begin();
  column_.mean = plain_.mean();
  column_.std = plain_.std();
  column_.log_mean = logs_.mean();
  column_.log_std = logs_.std();
  return std::move(column_);
}

void ColumnReader::MergeSpellings(char decimal) {
  std::map<std::string, std::map<std::string, uint64_t>> spellings;  // spellings of each value
  for (const auto& [text, count] : column_.texts) {
    CanonicalBuffer buffer;
    spellings[std::string(CanonicalSpelling(text, decimal, &buffer).value_or(text))].emplace(text, count);
  }
  column_.texts.clear();
  for (const auto& [value, counts] : spellings) {
    uint64_t all = 0;
    for (const auto& [text, count] : counts) all += count;
    const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
    column_.texts.emplace(most->first, all);
  }
}

void ColumnReader::AddSpelling(const Spelling* spelling, std::string_view text) {
  if (spelling == nullptr) return;
  Column::Spelled& spelled = column_.spelled[spelling];
  if (spelled.count++ == 0) spelled.first = text;
}

void ColumnReader::Distinguish(std::string_view text) {
  const uint64_t hash = Mix(HashName(text));
  if (hashes_.contains(hash)) {
    if (const auto at = column_.texts.find(text); at != column_.texts.end()) ++at->second;
    return;
  }
  if (hashes_.size() == Column::kMaxDistinct || budget_->distinct == 0) {
    column_.all_distinct_known = false;
    return;
  }
  --budget_->distinct;
  hashes_.insert(hash);
  // Once one does not fit, the list is useless.
  if (column_.texts.size() + 1 < hashes_.size()) return;
  const size_t bytes = text.size() + kBytesOfAnEntry;
  if (hashes_.size() <= Column::kMaxTexts && text.size() <= kMaxText && budget_->text_bytes >= bytes) {
    budget_->text_bytes -= bytes;
    text_bytes_ += bytes;
    column_.texts.emplace(text, 1);
    return;
  }
  column_.texts.clear();
  budget_->text_bytes += std::exchange(text_bytes_, 0);
}

const Spelling kInQuotes{"in quotes", "write them without quotes"};

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

#include "stream/csv/csv_settings.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <stdexcept>

#include "base/encoding/printable.h"
#include "base/text.h"
#include "stream/decode/decoder.h"
#include "stream/file/file_reader.h"

namespace leat::stream {
namespace {

// The second ones are tried where none of the first divides the lines. Hive writes \x01, others the unit
// separator \x1f.
constexpr std::string_view kCandidates[] = {",;\t|", "^~\x01\x1f"};
constexpr std::string_view kCsvBlanks = " \t\r\n";

// The number of columns that at least nine of ten records have; else 0.
size_t UsualColumns(const std::vector<std::string_view>& records, const CsvDialect& dialect) {
  std::map<size_t, size_t> counts;
  std::vector<std::string_view> fields;
  std::string scratch;
  for (const std::string_view record : records) {
    if (SplitCsv(record, dialect, &fields, &scratch).empty()) ++counts[fields.size()];
  }
  const auto usual = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return usual != counts.end() && 10 * usual->second >= 9 * records.size() ? usual->first : 0;
}

std::vector<std::string_view> WordsOf(std::string_view record) {
  std::vector<std::string_view> words;
  for (size_t at = 0; (at = record.find_first_not_of(kCsvBlanks, at)) != record.npos;) {
    const size_t end = std::min(record.find_first_of(kCsvBlanks, at), record.size());
    words.push_back(record.substr(at, end - at));
    at = end;
  }
  return words;
}

bool IsNumberText(std::string_view text) {
  return IsCsvNumber(text) || IsMissingNumber(text);
}

// 3:0.5, as libsvm writes the values of a row that are not 0.
bool IsIndexedPair(std::string_view word) {
  const size_t colon = word.find(':');
  return colon != word.npos && colon > 0 && IsNumberText(word.substr(0, colon)) &&
         IsNumberText(word.substr(colon + 1));
}

CsvDialect WithDelimiter(CsvDialect dialect, char delimiter) {
  dialect.delimiter = delimiter;
  return dialect;
}

// A dialect on a sample.
struct CsvFit {
  CsvDialect dialect;
  std::vector<Delimiter> found;  // delimiters that match; the dialect has the first
  size_t columns = 1;            // columns of most records
  size_t bad = 0;                // records that cannot be split, or have another number
  size_t quoted = 0;             // fields in quotes
  bool quoted_column = false;    // all values of a column are in quotes
  std::string wrong;             // fault of the first record
  std::vector<std::vector<std::string>> rows;
};

// Keeps, among delimiters that match equally, those that divide the first record like the others.
void PreferHeaders(const CsvSample& sample, CsvDialect dialect, std::vector<Delimiter>* found) {
  if (found->size() < 2) return;
  std::vector<Delimiter> fitting;
  for (const Delimiter& one : *found) {
    dialect.delimiter = one.character;
    std::vector<std::string_view> fields;
    std::string scratch;
    const std::string wrong = SplitCsv(sample.Records(dialect).front(), dialect, &fields, &scratch);
    if (wrong.empty() && fields.size() == one.columns) fitting.push_back(one);
  }
  if (!fitting.empty()) *found = std::move(fitting);
}

CsvFit FitOf(const CsvSample& sample, CsvDialect dialect, const CsvKnown& known) {
  CsvFit fit;
  if (!known.delimiter) {
    fit.found = FindDelimiters(sample, dialect, known.decimal);
    PreferHeaders(sample, dialect, &fit.found);
  }
  dialect.delimiter = known.delimiter     ? *known.delimiter
                      : fit.found.empty() ? ','
                                          : fit.found.front().character;
  fit.dialect = dialect;
  std::vector<std::string_view> fields;
  std::string scratch;
  std::map<size_t, size_t> widths, values, in_quotes;
  const auto records = sample.Records(dialect);
  for (const std::string_view record : records) {
    const std::string wrong = SplitCsv(record, dialect, &fields, &scratch);
    if (!wrong.empty()) {
      if (fit.rows.empty() && fit.wrong.empty()) fit.wrong = wrong;
      continue;
    }
    ++widths[fields.size()];
    for (size_t c = 0; c < fields.size(); ++c) {
      const char* const at = fields[c].data();
      const bool quote = dialect.quote != '\0' && at != record.data() && at[-1] == dialect.quote;
      fit.quoted += quote;
      if (fit.rows.empty()) continue;  // may be a header
      values[c] += !fields[c].empty();
      in_quotes[c] += quote && !fields[c].empty();
    }
    fit.rows.emplace_back(fields.begin(), fields.end());
  }
  if (fit.rows.empty()) return fit;
  const auto most = std::ranges::max_element(
      widths, {}, [](const auto& width) { return std::pair(width.second, width.first); });
  fit.columns = most->first;
  fit.bad = records.size() - most->second;
  fit.quoted_column = std::ranges::any_of(values, [&](const auto& column) {
    return column.second > 0 && in_quotes[column.first] == column.second;
  });
  return fit;
}

// Whether all values of a column are numbers with this decimal point, and some cannot have it for thousands.
bool HasDecimal(const CsvFit& fit, size_t column, char decimal) {
  bool sure = false;
  for (size_t r = 1; r < fit.rows.size(); ++r) {  // the first may be a header
    const auto& row = fit.rows[r];
    if (row.size() != fit.columns || IsMissingNumber(row[column])) continue;
    if (!IsCsvNumber(row[column], decimal)) return false;
    sure = sure || (row[column].find(decimal) != std::string::npos &&
                    !InThousands(TrimBlanks(row[column]), {&decimal, 1}));
  }
  return sure;
}

// A comma, if more columns have one than a dot. As many may be dates or versions among numbers, unless commas
// divide the columns, too.
char DecimalOf(const CsvFit& fit) {
  size_t commas = 0, dots = 0;
  for (size_t c = 0; c < fit.columns; ++c) {
    commas += HasDecimal(fit, c, ',');
    dots += HasDecimal(fit, c, '.');
  }
  return commas > dots || (commas > 0 && commas == dots && fit.dialect.delimiter != ',') ? ',' : '.';
}

bool Better(const CsvFit& a, const CsvFit& b) {
  if (a.rows.empty() || b.rows.empty()) return b.rows.empty() && !a.rows.empty();
  return a.bad < b.bad || (a.bad == b.bad && a.columns > b.columns && b.columns == 1);
}

// Files without quotes may have escapes before double ones.
bool HasEscapedQuote(const CsvSample& sample, char quote) {
  const auto lines = sample.Records({.quote = '\0'});
  if (quote == '\0') quote = '"';
  return std::ranges::any_of(lines, [escaped = std::string("\\") + quote](std::string_view line) {
    return line.find(escaped) != line.npos;
  });
}

// With escapes, if more records then fit, or as many and there are quotes behind escapes.
CsvFit FitWithQuote(const CsvSample& sample, char quote, const CsvKnown& known) {
  CsvFit fit = FitOf(sample, {.quote = quote, .escape = known.escape.value_or('\0')}, known);
  if (known.escape) return fit;
  CsvFit other = FitOf(sample, {.quote = quote, .escape = '\\'}, known);
  const bool as_good = other.bad == fit.bad && other.columns == fit.columns;
  return Better(other, fit) || (as_good && HasEscapedQuote(sample, quote)) ? other : fit;
}

CsvFit BestFit(const CsvSample& sample, const CsvKnown& known) {
  if (known.quote) return FitWithQuote(sample, *known.quote, known);
  CsvFit fit = FitWithQuote(sample, '"', known);
  if (fit.quoted == 0 || fit.bad > 0) {
    CsvFit single = FitWithQuote(sample, '\'', known);
    const bool as_good = single.quoted_column && !Better(fit, single);
    if (single.quoted > fit.quoted && (as_good || Better(single, fit))) fit = std::move(single);
  }
  if (fit.quoted > 0 && fit.quoted >= fit.bad) return fit;
  CsvFit none = FitWithQuote(sample, '\0', known);
  const bool as_good = fit.quoted == 0 && !Better(fit, none);
  if (none.dialect.escape != '\0') return as_good || Better(none, fit) ? none : fit;
  const bool fits = none.columns > 1 && none.rows.front().size() == none.columns;
  return fits && Better(none, fit) ? none : fit;
}

Status CheckKnown(const CsvKnown& known) {
  const std::pair<const char*, std::optional<char>> all[] = {{"delimiter", known.delimiter},
                                                             {"quote", known.quote},
                                                             {"escape", known.escape},
                                                             {"decimal", known.decimal}};
  for (const auto& [name, c] : all) {
    for (const auto& [other, same] : all) {
      if (name == other) break;
      // Numbers in quotes may have a comma between commas.
      if (std::string_view(name) == "decimal" && std::string_view(other) == "delimiter") continue;
      if (c && c != '\0' && c == same)
        return {Code::kInvalidArgument, std::string(name) + " is '" + *c + "', as " + other + " is"};
    }
  }
  return {};
}

constexpr size_t kMaxMissing = 64;

// A list of texts, or one.
std::vector<std::string> MissingFrom(const Config& missing) {
  std::vector<std::string> texts;
  const auto add = [&](const Config& text) {
    if (text.IsNull()) text.Fail("a missing value that is spelled null needs quotes: \"null\"");
    texts.push_back(text.String());
  };
  if (!missing.IsList()) {
    add(missing);
    return texts;
  }
  for (size_t i = 0; i < missing.size(); ++i) add(missing[i]);
  if (texts.size() > kMaxMissing)
    missing.Fail(StrCat(texts.size(), " texts for missing values; at most ", kMaxMissing));
  return texts;
}

// A text is missing, or a value.
void CheckMissing(const Config& missing, const Schema& schema) {
  for (const Field& field : schema.fields) {
    if (field.from || field.type != Field::Type::kCategory) continue;
    for (const std::string& text : *schema.missing) {
      if (!text.empty() && std::ranges::find(field.values, text) != field.values.end())
        missing.Fail("'" + text + "' is missing, and a value of '" + field.name + "'; it can be one of them");
    }
  }
}

void CheckDifferent(const Config& config, const Schema& schema) {
  const auto same = [&](const char* key, char a, const char* other, char b) {
    if (a != '\0' && a == b && config.Has(key))
      config.At(key).Fail(std::string(key) + " is '" + a + "', as " + other + " is");
  };
  same("quote", schema.quote, "delimiter", schema.delimiter);
  same("escape", schema.escape, "delimiter", schema.delimiter);
  same("escape", schema.escape, "quote", schema.quote);
  same("quote", schema.quote, "decimal", schema.decimal);
  same("escape", schema.escape, "decimal", schema.decimal);
}

constexpr const char* kCsvCharacterRule = "it must be one character that is no letter and no digit, or none";

// A quote or an escape: one character, or 0 for `none`. None if it cannot be one.
std::optional<char> ParseCsvCharacter(std::string_view text) {
  if (text == "none") return '\0';
  const bool fits = text.size() == 1 && text[0] > 0x20 && text[0] < 0x7f &&
                    std::isalnum(static_cast<unsigned char>(text[0])) == 0;
  return fits ? std::optional(text[0]) : std::nullopt;
}

std::optional<char> ParseDecimal(std::string_view text) {
  return text == "." || text == "," ? std::optional(text[0]) : std::nullopt;
}

char CsvCharacterFrom(const Config& config, const char* key) {
  const std::string text = config.String();
  const auto character = ParseCsvCharacter(text);
  if (!character) config.Fail(std::string(key) + " is '" + text + "'; " + kCsvCharacterRule);
  return *character;
}

}  // namespace

std::optional<char> ParseDelimiter(std::string_view text) {
  if (text == "tab" || text == "\t") return '\t';
  const auto fits = [](char c) {
    return c > 0 && c < 0x7f && std::isalnum(static_cast<unsigned char>(c)) == 0 &&
           std::string_view("\"'+-._ \r\n").find(c) == std::string_view::npos;
  };
  return text.size() == 1 && fits(text[0]) ? std::optional(text[0]) : std::nullopt;
}

char DelimiterFrom(const Config& config) {
  const std::string text = config.String();
  const auto delimiter = ParseDelimiter(text);
  if (!delimiter) config.Fail(WhyNoDelimiter(text));
  return *delimiter;
}

std::string WhyNoDelimiter(const std::string& text) {
  const bool blank = text.find_first_not_of(kCsvBlanks) == text.npos;
  return "delimiter is '" + text + "'; it must be tab or one character such as , ; or |" +
         (blank ? "; blanks are written as commas by " + CommasForBlanks("FILE") : "");
}

std::string CommasForBlanks(const std::string& path) {
  return "awk '{$1 = $1} 1' OFS=, " + ShellWord(path) + " > " + NewFile(path, ".csv");
}

std::string NamesAreInLine(const std::string& path, size_t line) {
  return StrCat("the names of the columns are in line ", line,
                "; remove the lines above: ", FromLine(path, line));
}

std::string DelimiterName(char delimiter) {
  if (delimiter == '\t') return "tab";
  const bool control = delimiter > 0 && delimiter < 0x20;
  return "'" + (control ? "\\x" + ToHex({&delimiter, 1}) : std::string(1, delimiter)) + "'";
}

CsvSample CsvSample::Below(size_t lines) const {
  std::string_view rest = text_;
  for (; lines > 0 && !rest.empty(); --lines)
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  constexpr size_t kEnough = 16 << 10;  // to find a header, line by line
  if (rest.size() > kEnough && rest.rfind('\n', kEnough) != rest.npos)
    rest = rest.substr(0, rest.rfind('\n', kEnough) + 1);
  return CsvSample(std::string(rest));
}

std::vector<std::string_view> CsvSample::Records(const CsvDialect& dialect) const {
  std::vector<std::string_view> records;
  for (const std::string& record : records_) {
    if (records.size() < kMaxRecords) records.emplace_back(record);
  }
  for (std::string_view rest = text_; !rest.empty() && records.size() < kMaxRecords;) {
    const CsvRecord first = FirstCsvRecord(rest, dialect);
    std::string_view record = rest.substr(0, first.end);
    if (TrimCsvRecord(dialect, &record)) records.push_back(record);
    rest.remove_prefix(first.next);
  }
  return records;
}

std::vector<Delimiter> FindDelimiters(const CsvSample& sample, const CsvDialect& dialect,
                                      std::optional<char> decimal) {
  std::vector<Delimiter> found;
  for (const std::string_view candidates : kCandidates) {
    for (const char candidate : candidates) {
      const CsvDialect divided = WithDelimiter(dialect, candidate);
      if (const size_t columns = UsualColumns(sample.Records(divided), divided); columns >= 2)
        found.push_back({candidate, columns});
    }
    if (!found.empty()) break;
  }
  if (found.size() > 1) std::erase_if(found, [&](const auto& one) { return one.character == decimal; });
  return found;
}

Result<Delimiter> ChooseDelimiter(const std::string& path, const CsvSample& sample, const Schema& schema,
                                  bool header) {
  const auto fits = [&](const Delimiter& delimiter) {
    std::vector<std::string_view> names;
    std::string scratch;
    if (!header)
      return delimiter.columns == (schema.columns.empty() ? schema.fields.size() : schema.columns.size());
    const CsvDialect dialect = WithDelimiter(schema.dialect(), delimiter.character);
    const auto records = sample.Records(dialect);
    if (records.empty() || !SplitCsv(records.front(), dialect, &names, &scratch).empty()) return false;
    return std::ranges::all_of(schema.fields, [&](const Field& field) {
      return std::ranges::find(names, field.name) != names.end();
    });
  };
  const auto found = FindDelimiters(sample, schema.dialect(), schema.decimal);
  std::vector<Delimiter> fitting;
  std::ranges::copy_if(found, std::back_inserter(fitting), fits);
  if (fitting.size() == 1) return fitting.front();
  if (fitting.empty() && (found.empty() || fits(Delimiter{}))) return Delimiter{};
  if (fitting.empty() && found.size() == 1) return found.front();
  return Status(Code::kInvalidArgument, path + ": " + Describe(fitting.empty() ? found : fitting) +
                                            " divide the lines alike; say which it is (delimiter: \"" +
                                            found.front().character + "\")");
}

std::string WhyUndivided(const CsvSample& sample) {
  size_t pairs = 0;
  std::map<size_t, size_t> widths;
  std::map<size_t, std::pair<size_t, bool>> numbers;  // by a word's place: count, and whether all are numbers
  const auto records = sample.Records({.quote = '\0'});
  for (const std::string_view record : records) {
    const std::vector<std::string_view> words = WordsOf(record);
    ++widths[words.size()];
    pairs += words.size() > 1 && IsNumberText(words[0]) &&
             std::all_of(words.begin() + 1, words.end(), IsIndexedPair);
    if (record.data() == records.front().data()) continue;  // may be a header
    for (size_t i = 0; i < words.size(); ++i) {
      auto& [count, all] = numbers.try_emplace(i, 0, true).first->second;
      ++count;
      all = all && IsNumberText(words[i]);
    }
  }
  const auto most = [&](size_t count) { return 10 * count >= 9 * records.size(); };
  if (records.size() < 2) return "";
  if (most(pairs)) return "has pairs INDEX:VALUE of libsvm";
  const auto usual = std::ranges::max_element(widths, {}, [](const auto& entry) { return entry.second; });
  const bool divided =
      usual->first > 1 && most(usual->second) && std::ranges::any_of(numbers, [](const auto& place) {
        return place.second.second && place.second.first > 0;
      });
  return divided ? "has columns divided by blanks" : "";
}

std::string Describe(std::span<const Delimiter> delimiters) {
  std::string text;
  for (size_t i = 0; i < delimiters.size(); ++i) {
    text += i == 0 ? "" : i + 1 < delimiters.size() ? ", " : " and ";
    text += DelimiterName(delimiters[i].character) + " (" + Plural(delimiters[i].columns, "column") + ")";
  }
  return text;
}

Result<CsvGuess> DetectCsv(const std::string& name, const CsvSample& sample, const CsvKnown& known) {
  LEAT_RETURN_IF_ERROR(CheckKnown(known));
  const CsvFit fit = BestFit(sample, known);
  if (fit.rows.empty()) {
    const auto records = sample.Records(fit.dialect);
    const bool blanks = !records.empty() && records.front().find("\" \"") != std::string_view::npos;
    return Status(Code::kDataLoss,
                  name + ": " + (fit.wrong.empty() ? "has no records" : fit.wrong) +
                      (blanks ? "; do blanks divide its columns? R's write.table needs sep = \",\"" : ""));
  }
  if (fit.found.size() > 1) {
    return Status(Code::kInvalidArgument, name + ": " + Describe(fit.found) +
                                              " divide the lines alike; say which it is (--delimiter)");
  }
  return CsvGuess{fit.dialect, fit.columns, known.decimal ? *known.decimal : DecimalOf(fit)};
}

CsvKnown KnownFrom(const CsvTexts& texts, const std::string& prefix) {
  const auto parse = [&](const char* name, const std::string& text, auto how, const char* rule) {
    std::optional<char> character;
    if (text.empty()) return character;
    character = how(text);
    if (!character) throw std::invalid_argument(prefix + name + " is '" + text + "'; " + rule);
    return character;
  };
  const auto delimiter = ParseDelimiter(texts.delimiter);
  if (!delimiter && !texts.delimiter.empty())
    throw std::invalid_argument(prefix + WhyNoDelimiter(texts.delimiter));
  return {.delimiter = delimiter,
          .quote = parse("quote", texts.quote, ParseCsvCharacter, kCsvCharacterRule),
          .escape = parse("escape", texts.escape, ParseCsvCharacter, kCsvCharacterRule),
          .decimal = parse("decimal", texts.decimal, ParseDecimal, "it must be . or ,")};
}

void ReadCsvSettings(const Config& config, Schema* schema) {
  for (const char* key : kCsvSettings) {
    if (!config.Has(key) || schema->format == Schema::Format::kCsv) continue;
    config.At(key).Fail(std::string(key) + (key == std::string_view("columns") ? " are" : " is") +
                        " for the format csv");
  }
  if (config.Has("delimiter")) {
    schema->delimiter = DelimiterFrom(config.At("delimiter"));
    schema->delimiter_set = true;
  }
  if (config.Has("quote")) schema->quote = CsvCharacterFrom(config.At("quote"), "quote");
  if (config.Has("escape")) schema->escape = CsvCharacterFrom(config.At("escape"), "escape");
  if (config.Has("decimal")) schema->decimal = config.At("decimal").OneOf("decimal", {".", ","})[0];
  CheckDifferent(config, *schema);
  if (!config.Has("missing")) return;
  schema->missing = MissingFrom(config.At("missing"));
  CheckMissing(config.At("missing"), *schema);
}

}  // namespace leat::stream

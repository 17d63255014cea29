#include "stream/csv/delimiter.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>

#include "base/encoding/printable.h"
#include "base/text.h"
#include "stream/decode/text_hint.h"
#include "stream/file/kind.h"

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
  return "the names of the columns are in line " + std::to_string(line) +
         "; remove the lines above: " + FromLine(path, line);
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

std::vector<Delimiter> FindDelimiters(const CsvSample& sample, const CsvDialect& dialect) {
  std::vector<Delimiter> found;
  for (const std::string_view candidates : kCandidates) {
    for (const char candidate : candidates) {
      const CsvDialect its = WithDelimiter(dialect, candidate);
      if (const size_t columns = UsualColumns(sample.Records(its), its); columns >= 2)
        found.push_back({candidate, columns});
    }
    if (!found.empty()) break;
  }
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
  std::vector<Delimiter> found = FindDelimiters(sample, schema.dialect()), fitting;
  // Where numbers have a comma, it divides them, too.
  if (found.size() > 1)
    std::erase_if(found, [&](const auto& one) { return one.character == schema.decimal; });
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

}  // namespace leat::stream

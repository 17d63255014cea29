#include "stream/csv/delimiter.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>

namespace leat::stream {
namespace {

constexpr std::string_view kCandidates = ",;\t|";

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

CsvDialect WithDelimiter(CsvDialect dialect, char delimiter) {
  dialect.delimiter = delimiter;
  return dialect;
}

}  // namespace

std::optional<char> ParseDelimiter(std::string_view text) {
  if (text == "tab" || text == "\t") return '\t';
  const auto fits = [](char c) {
    return c > 0x20 && c < 0x7f && std::isalnum(static_cast<unsigned char>(c)) == 0 &&
           std::string_view("\"'+-._").find(c) == std::string_view::npos;
  };
  return text.size() == 1 && fits(text[0]) ? std::optional(text[0]) : std::nullopt;
}

char DelimiterFrom(const Config& config) {
  const std::string text = config.String();
  const auto delimiter = ParseDelimiter(text);
  if (!delimiter) config.Fail("delimiter is '" + text + "'; " + kDelimiterRule);
  return *delimiter;
}

std::string DelimiterName(char delimiter) {
  return delimiter == '\t' ? "tab" : std::string("'") + delimiter + "'";
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
  for (const char candidate : kCandidates) {
    const CsvDialect its = WithDelimiter(dialect, candidate);
    if (const size_t columns = UsualColumns(sample.Records(its), its); columns >= 2)
      found.push_back({candidate, columns});
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

std::string Describe(std::span<const Delimiter> delimiters) {
  std::string text;
  for (size_t i = 0; i < delimiters.size(); ++i) {
    text += i == 0 ? "" : i + 1 < delimiters.size() ? ", " : " and ";
    text += DelimiterName(delimiters[i].character) + " (" + std::to_string(delimiters[i].columns) +
            (delimiters[i].columns == 1 ? " column)" : " columns)");
  }
  return text;
}

}  // namespace leat::stream

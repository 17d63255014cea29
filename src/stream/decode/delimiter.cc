#include "stream/decode/delimiter.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>

#include "stream/decode/csv_decoder.h"
#include "stream/decode/lines.h"

namespace leat::stream {
namespace {

constexpr std::string_view kCandidates = ",;\t|";

// The number of columns that at least nine of ten lines have; else 0.
size_t UsualColumns(std::span<const std::string> lines, char delimiter) {
  std::map<size_t, size_t> counts;
  std::vector<std::string_view> fields;
  std::string scratch;
  for (const std::string& line : lines) {
    if (SplitCsv(line, delimiter, &fields, &scratch).empty()) ++counts[fields.size()];
  }
  const auto usual = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return usual != counts.end() && 10 * usual->second >= 9 * lines.size() ? usual->first : 0;
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

std::vector<Delimiter> FindDelimiters(std::span<const std::string> lines) {
  std::vector<Delimiter> found;
  for (const char candidate : kCandidates) {
    if (const size_t columns = UsualColumns(lines, candidate); columns >= 2)
      found.push_back({candidate, columns});
  }
  return found;
}

Result<std::vector<std::string>> SampleLines(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto reader, LineReader::Open(path));
  std::vector<std::string> lines;
  std::string_view line;
  for (size_t bytes = 0; lines.size() < kSampleLines && bytes < kSampleBytes; bytes += line.size()) {
    LEAT_ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
    if (!more) break;
    lines.emplace_back(line);
  }
  if (lines.empty()) return Status(Code::kDataLoss, path + ": has no records");
  return lines;
}

Result<Delimiter> ChooseDelimiter(const std::string& path, std::span<const std::string> lines,
                                  const Schema& schema, bool header) {
  const auto fits = [&](const Delimiter& delimiter) {
    std::vector<std::string_view> names;
    std::string scratch;
    if (!header)
      return delimiter.columns == (schema.columns.empty() ? schema.fields.size() : schema.columns.size());
    if (!SplitCsv(lines.front(), delimiter.character, &names, &scratch).empty()) return false;
    return std::ranges::all_of(schema.fields, [&](const Field& field) {
      return std::ranges::find(names, field.name) != names.end();
    });
  };
  std::vector<Delimiter> found = FindDelimiters(lines), fitting;
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

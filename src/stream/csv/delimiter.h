// The delimiter of a CSV file: its name, and its detection.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "stream/csv/split.h"
#include "stream/schema.h"

namespace leat::stream {

// A single character, or the word `tab`. None if it cannot be a delimiter: quotes, letters, digits, blanks
// and characters of numbers.
std::optional<char> ParseDelimiter(std::string_view text);
// "delimiter is 'ab'; it must be …"
std::string WhyNoDelimiter(const std::string& text);
// Lines that may be above a header, and what to do about them.
inline constexpr size_t kMostAboveHeader = 20;
std::string NamesAreInLine(const std::string& path, size_t line);
// The command that writes a file whose columns are divided by blanks as CSV.
std::string CommasForBlanks(const std::string& path);
// Parses a job's setting; throws std::invalid_argument.
char DelimiterFrom(const Config& config);
// As shown in messages: "','", "tab", "'\x01'".
std::string DelimiterName(char delimiter);

struct Delimiter {
  char character = ',';
  size_t columns = 1;  // in each record
  friend bool operator==(const Delimiter&, const Delimiter&) = default;
};

// The first records of a CSV file or of a topic, by which a dialect is detected.
class CsvSample {
 public:
  static constexpr size_t kMaxRecords = 1000;

  // The beginning of a file's text, which may be cut off after a line.
  explicit CsvSample(std::string text) : text_(std::move(text)) {}
  // Records of a topic.
  explicit CsvSample(std::vector<std::string> records) : records_(std::move(records)) {}

  // The beginning of the sample without its first lines; empty for records of a topic.
  CsvSample Below(size_t lines) const;
  bool of_file() const { return !text_.empty(); }
  bool BeginsBlank() const {
    return text_.substr(0, text_.find('\n')).find_first_not_of(" \t\r") == std::string::npos;
  }
  // At most kMaxRecords, without blank lines.
  std::vector<std::string_view> Records(const CsvDialect& dialect) const;

 private:
  std::string text_;
  std::vector<std::string> records_;  // if there is no text
};

// Finds those of comma, semicolon, tab and bar that divide at least nine of ten records into the same number
// of columns, two or more; if there are none, those of ^, ~, \x01 and \x1f. `dialect`: its quote and escape.
std::vector<Delimiter> FindDelimiters(const CsvSample& sample, const CsvDialect& dialect = {});

// The delimiter of a CSV file that begins so, with the fields of the schema. Chooses, among those of
// FindDelimiters, one for which the header (if `header`: the first record) has the schema's fields, or
// otherwise the number of columns matches. {',', 1} if none does. kInvalidArgument if several match equally;
// `path` is for the message.
Result<Delimiter> ChooseDelimiter(const std::string& path, const CsvSample& sample, const Schema& schema,
                                  bool header);

// Names what lines have that no delimiter divides: "has columns divided by blanks". Empty if they are text.
std::string WhyUndivided(const CsvSample& sample);

// "',' (4 columns) and ';' (3 columns)"
std::string Describe(std::span<const Delimiter> delimiters);

}  // namespace leat::stream

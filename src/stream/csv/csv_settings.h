// Settings of CSV files, as given or as detected: the delimiter, quotes, escapes and the decimal point.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "stream/csv/csv.h"
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
// Among several, the decimal point is none: it divides numbers, too.
std::vector<Delimiter> FindDelimiters(const CsvSample& sample, const CsvDialect& dialect = {},
                                      std::optional<char> decimal = {});

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

struct CsvGuess {
  CsvDialect dialect;
  size_t columns = 1;  // columns of most records
  char decimal = '.';
  friend bool operator==(const CsvGuess&, const CsvGuess&) = default;
};

// Characters of a file that are known, and not detected; 0 is `none`.
struct CsvKnown {
  std::optional<char> delimiter, quote, escape, decimal;
};

// Anything but double quotes, no escapes and a decimal dot is chosen only where those fail:
//   quote '     more fields are in single quotes than in double ones, and all values of a column are, or more
//               records then have the same number of columns
//   quote none  nothing is in quotes, or less than there are records that only fit without quotes, and more
//               records then have the same number of columns; or nothing is, and there are escapes
//   escape \    more records then have the same number of columns, or as many and it is before quotes
//   decimal ,   more columns have such numbers than have a dot, or as many and the delimiter is another one.
//               A comma or dot before three digits alone, as in 1,234, may be one of thousands, and does not
//               count
// kInvalidArgument if several delimiters match equally, or if two characters that are known are the same;
// kDataLoss if no record can be split. `name` is for the messages.
Result<CsvGuess> DetectCsv(const std::string& name, const CsvSample& sample, const CsvKnown& known);

// The settings of a schema that are for CSV alone.
inline constexpr std::array kCsvSettings = {"delimiter", "quote", "escape", "decimal", "missing", "columns"};

// Reads those that the section `schema:` has, after its fields. Throws std::invalid_argument, also if the
// format is another one.
void ReadCsvSettings(const Config& config, Schema* schema);

// The characters that a user names, or empty texts.
struct CsvTexts {
  std::string delimiter, quote, escape, decimal;
};
// Throws std::invalid_argument; `prefix` is before the names in messages, such as "--".
CsvKnown KnownFrom(const CsvTexts& texts, const std::string& prefix);

}  // namespace leat::stream

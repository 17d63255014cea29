// Settings of CSV files, as given or as detected.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "base/config/config.h"
#include "base/status.h"
#include "stream/csv/delimiter.h"
#include "stream/schema.h"

namespace leat::stream {

// Detects how a CSV file is written: delimiter, quotes, escapes, decimal point.

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
//   A
//               comma or dot before three digits alone, as in 1,234, may be one of thousands, and does not
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

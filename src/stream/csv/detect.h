// Detects how a CSV file is written: delimiter, quotes, escapes, decimal point.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "stream/csv/delimiter.h"

namespace leat::stream {

struct CsvGuess {
  CsvDialect dialect;
  size_t columns = 1;  // of most records
  char decimal = '.';
  friend bool operator==(const CsvGuess&, const CsvGuess&) = default;
};

// Anything but double quotes, no escapes and a decimal dot is chosen only where those fail:
//   quote '    nothing is in double quotes, and all values of a column are in single ones, or more records
//   then
//              have the same number of columns
//   escape \   more records then have the same number of columns, or as many and it is before quotes
//   decimal ,  a column has such numbers, and none of the file has a dot. A comma before three digits alone
//              may be one of thousands, and is not taken for it
// `delimiter`: not detected then. kInvalidArgument if several delimiters match equally; kDataLoss if no
// record can be split. `name` is for the messages.
Result<CsvGuess> DetectCsv(const std::string& name, const CsvSample& sample, std::optional<char> delimiter);

}  // namespace leat::stream

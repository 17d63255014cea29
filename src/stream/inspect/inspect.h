// What a file of records holds, column by column: one pass, bounded memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "stream/decode/delimiter.h"
#include "stream/schema.h"

namespace leat::stream {

struct InspectOptions {
  uint64_t rows = 0;              // 0: the whole file
  std::optional<char> delimiter;  // CSV; not set: found
  std::optional<bool> header;     // CSV: whether the first line names the columns; not set: found
};

// Of one column, or of one key of JSON objects.
struct Column {
  // Different texts that are kept, and different values that are told apart.
  static constexpr size_t kMaxTexts = 1000;
  static constexpr size_t kMaxDistinct = 50'000;

  std::string name;  // CSV without a header: c1, c2, ...
  uint64_t values = 0;
  uint64_t missing = 0;  // empty, "?", NA, null, or (JSON) not there
  uint64_t numbers = 0;  // of the values
  uint64_t nested = 0;   // JSON: of the values, lists and objects
  bool whole = true;     // all numbers are
  bool rising = true;    // each number is the one before it plus the same step
  double min = 0, max = 0, mean = 0, std = 0;
  double log_mean = 0, log_std = 0;  // of log(1 + x); where min is 0 or more
  // Each value as it is written and how often; complete while there are no more than kMaxTexts.
  std::map<std::string, uint64_t, std::less<>> texts;
  uint64_t distinct = 0;           // at most kMaxDistinct, then there may be more
  bool all_distinct_known = true;  // distinct is exact
  bool broken_text = false;        // has bytes that are not UTF-8

  bool is_number() const { return values > 0 && numbers == values; }
  bool constant() const { return values > 0 && distinct == 1; }
  // Every value is another one, and there are enough of them to tell.
  bool unique() const { return values >= 20 && distinct == std::min<uint64_t>(values, kMaxDistinct); }
};

struct Inspection {
  Schema::Format format = Schema::Format::kCsv;  // or kJson
  Delimiter delimiter;                           // CSV
  bool delimiter_found = false;                  // of several that there are
  bool header = false;                           // CSV
  uint64_t rows = 0;                             // that fit
  uint64_t bad_rows = 0;                         // another number of columns, or no JSON object
  std::string first_bad;                         // "file:3: has 2 columns instead of 4"
  bool whole_file = true;
  std::vector<Column> columns;
};

// Reads a CSV or JSON-lines file, plain or gzip'd. kNotFound, kPermissionDenied and kDataLoss as LineReader;
// kDataLoss when it has no records, is no text, or more than one in ten rows is bad; kInvalidArgument when
// several delimiters divide it alike.
Result<Inspection> Inspect(const std::string& path, const InspectOptions& options);

}  // namespace leat::stream

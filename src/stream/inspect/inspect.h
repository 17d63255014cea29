// Statistics of a file of records, column by column, in one pass and bounded memory, and the sections of a
// job that they propose.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "stream/csv/csv_settings.h"
#include "stream/schema.h"
#include "stream/source.h"

namespace leat::stream {

// How a text that holds a number which no decoder reads spells it, and how to write it: numbers `how`, such
// as '5%', are texts; `remedy`.
struct Spelling {
  std::string_view how, remedy;
};

// Null if the text is a plain number with this decimal point, or none. The result is one of a few constants.
// Thread-safe.
const Spelling* SpellingOf(std::string_view text, char decimal = '.');

// The spelling of a plain number that is a text in JSON.
extern const Spelling kInQuotes;

struct InspectOptions {
  uint64_t rows = 0;           // 0: the whole file
  CsvKnown csv = {};           // the rest is detected
  std::optional<bool> header;  // CSV: whether the first record has the column names; not set: detected
  std::string encoding = {};   // encoding of the file's text: see FileReader
};

// A column, or a value of JSON objects, nested or not.
struct Column {
  // Limits of the distinct texts kept, and of the distinct values counted.
  static constexpr size_t kMaxTexts = 1000;
  static constexpr size_t kMaxDistinct = 50'000;

  std::string name;               // CSV without a header: c1, c2, ...; JSON: the path
  std::vector<std::string> path;  // JSON: the keys
  uint64_t values = 0;
  uint64_t missing = 0;  // empty, "?", NA, null, or (JSON) absent
  uint64_t absent = 0;   // missing ones that a default can replace: not texts in JSON
  uint64_t numbers = 0;  // values that are numbers
  uint64_t nested = 0;   // JSON: lists among the values, and objects that are nested too deep
  // JSON: records that no field of it takes, not among those above: with Infinity, and with another value
  // where the path needs an object, and where that is.
  uint64_t infinite = 0;
  uint64_t blocked = 0;
  std::string blocker;
  std::string text;    // the first value that is no number; empty if there is none
  bool whole = true;   // all numbers are whole
  bool codes = false;  // some are whole and begin with a zero, such as 01234: the digits of a code
  bool rising = true;  // numbers increase by a constant step
  double min = 0, max = 0, mean = 0, std = 0;
  double log_mean = 0, log_std = 0;  // mean and deviation of log(1 + x), if min is at least 0
  // Texts that hold a number which no decoder reads: how many, and the first one.
  struct Spelled {
    uint64_t count = 0;
    std::string first;
  };
  std::map<const Spelling*, Spelled> spelled;
  // Each distinct text and its count; complete up to kMaxTexts. Numbers and booleans are in their most
  // frequent spelling.
  std::map<std::string, uint64_t, std::less<>> texts;
  uint64_t distinct = 0;           // at most kMaxDistinct; there may be more
  bool all_distinct_known = true;  // distinct is exact

  bool is_number() const { return values > 0 && numbers == values && !codes; }
  // Whether all values are the same, however they are spelled.
  bool constant() const { return values > 0 && (distinct == 1 || (is_number() && min == max)); }
  // Whether its path leads through that of the other column.
  bool is_in(const Column& other) const {
    return !other.path.empty() && path.size() > other.path.size() &&
           std::equal(other.path.begin(), other.path.end(), path.begin());
  }
  // All values differ, and there are enough of them to tell.
  bool unique() const { return values >= 20 && distinct == std::min<uint64_t>(values, kMaxDistinct); }
};

struct Inspection {
  Schema::Format format = Schema::Format::kCsv;    // or kJson
  Delimiter delimiter;                             // CSV
  bool header = false;                             // CSV
  char quote = '"', escape = '\0', decimal = '.';  // CSV, as in Schema
  std::vector<std::string> missing;                // CSV: the texts that stand for missing values
  std::string encoding;                            // as in InspectOptions
  uint64_t rows = 0;                               // valid
  uint64_t bad_rows = 0;                           // wrong number of columns, or not a JSON object
  std::string first_bad;                           // "file:3: has 2 columns instead of 4"
  bool whole_file = true;                          // or topic
  std::vector<Column> columns;
};

// Reads a CSV or JSON-lines file, plain or gzip. Errors as of FileReader and LineReader.
// kDataLoss also if it has no records, is not text, or more than one row in ten is bad; kInvalidArgument if
// several delimiters match equally.
Result<Inspection> Inspect(const std::string& path, const InspectOptions& options);

// The same for records of a topic, `name` in messages: those that there are now, or the first `rows`, evenly
// from the partitions. No record is a header. Errors of the source, too.
Result<Inspection> Inspect(const std::string& name, Source& topic, const InspectOptions& options);

struct ProposeOptions {
  std::string path;  // the path to write into the job
  // A topic: the settings of `stream:` as YAML, in place of files. `path` is its name.
  std::string stream;
  std::string label;  // column to predict; empty: candidates are named in a comment
};

// YAML with a comment on every decision. Proposals:
//   numbers   {type: number} with mean and std, of log(1 + x) if the values are skewed
//   text      {type: category} with its values, or hashed into buckets if there are many
//   nested    `path`; of JSON objects in objects
//   codes     digits with zeros before them: a category
//   missing   `default`: the mean, or no category, for records without the value; CSV: `missing`, the texts
//             that stand for one
//   ignored   constant columns, text with (nearly) only distinct values, row numbers, lists and objects, and
//             columns of numbers with so many texts that too many records would become dead letters; values
//             that most records lack, but for texts of CSV
// Throws std::invalid_argument if the label does not exist or is unsuitable, or if no feature is left.
std::string Propose(const Inspection& inspection, const ProposeOptions& options);

}  // namespace leat::stream

// The delimiter of a CSV file: its name, and its detection.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "stream/schema.h"

namespace leat::stream {

// A single character, or the word `tab`. None if it cannot be a delimiter: quotes, letters, digits, blanks
// and characters of numbers.
std::optional<char> ParseDelimiter(std::string_view text);
inline constexpr const char* kDelimiterRule = "it must be tab or one character such as , ; or |";
// Parses a job's setting; throws std::invalid_argument.
char DelimiterFrom(const Config& config);
// As shown in messages and job files: "','", "tab".
std::string DelimiterName(char delimiter);

struct Delimiter {
  char character = ',';
  size_t columns = 1;  // in each line
  friend bool operator==(const Delimiter&, const Delimiter&) = default;
};

// Those of comma, semicolon, tab and bar that divide at least nine of ten lines into the same number of
// columns, two or more.
std::vector<Delimiter> FindDelimiters(std::span<const std::string> lines);

// The first lines of a file, at most kSampleLines and about kSampleBytes. Errors as LineReader's; kDataLoss
// if there are none.
inline constexpr size_t kSampleLines = 1000;
inline constexpr size_t kSampleBytes = size_t{1} << 20;
Result<std::vector<std::string>> SampleLines(const std::string& path);

// The delimiter of a CSV file with these first lines and the fields of the schema. Chooses, among those of
// FindDelimiters, one for which the header (if `header`: the first line) has the schema's fields, or
// otherwise the number of columns matches. {',', 1} if none does. kInvalidArgument if several match equally;
// `path` is for the message.
Result<Delimiter> ChooseDelimiter(const std::string& path, std::span<const std::string> lines,
                                  const Schema& schema, bool header);

// "',' (4 columns) and ';' (3 columns)"
std::string Describe(std::span<const Delimiter> delimiters);

}  // namespace leat::stream

// The character between the fields of a CSV file: its name, and how it is found when nobody says it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "stream/schema.h"

namespace leat::stream {

// A character, or the word `tab`; nothing when it cannot delimit fields: quotes, letters, digits, blanks and
// what numbers are written with.
std::optional<char> ParseDelimiter(std::string_view text);
inline constexpr const char* kDelimiterRule = "it must be tab or one character such as , ; or |";
// The same of a job's setting; throws std::invalid_argument.
char DelimiterFrom(const Config& config);
// As messages and job files show it: "','", "tab".
std::string DelimiterName(char delimiter);

struct Delimiter {
  char character = ',';
  size_t columns = 1;  // that it divides the lines into
  friend bool operator==(const Delimiter&, const Delimiter&) = default;
};

// Those of comma, semicolon, tab and bar that divide at least nine of ten lines into the same number of
// columns, two or more.
std::vector<Delimiter> FindDelimiters(std::span<const std::string> lines);

// The first lines of a file, at most kSampleLines of them and about kSampleBytes. Errors as LineReader's;
// kDataLoss when there are none.
inline constexpr size_t kSampleLines = 1000;
inline constexpr size_t kSampleBytes = size_t{1} << 20;
Result<std::vector<std::string>> SampleLines(const std::string& path);

// The delimiter of a CSV file that begins with these lines and whose fields the schema describes. Of those
// that FindDelimiters finds, the one under which the header (`header`: the first line) has the schema's
// fields, or else the number of columns is the schema's. {',', 1} when none is found. kInvalidArgument when
// several do as well; `path` is for the message.
Result<Delimiter> ChooseDelimiter(const std::string& path, std::span<const std::string> lines,
                                  const Schema& schema, bool header);

// "',' (4 columns) and ';' (3 columns)"
std::string Describe(std::span<const Delimiter> delimiters);

}  // namespace leat::stream

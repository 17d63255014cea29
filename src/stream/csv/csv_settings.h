// The settings of a schema that are for CSV alone.
#pragma once

#include <array>
#include <string>

#include "base/config/config.h"
#include "stream/csv/detect.h"
#include "stream/schema.h"

namespace leat::stream {

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

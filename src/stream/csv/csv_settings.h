// The settings of a schema that are for CSV alone.
#pragma once

#include <array>

#include "base/config/config.h"
#include "stream/schema.h"

namespace leat::stream {

inline constexpr std::array kCsvSettings = {"delimiter", "quote", "escape", "decimal", "missing", "columns"};

// Reads those that the section `schema:` has, after its fields. Throws std::invalid_argument, also if the
// format is another one.
void ReadCsvSettings(const Config& config, Schema* schema);

// A quote or an escape: one character, or 0 for `none`. Throws std::invalid_argument.
char CsvCharacterFrom(const Config& config, const char* key);

}  // namespace leat::stream

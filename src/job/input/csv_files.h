// Detects the delimiter and the column names of CSV files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stream/csv/delimiter.h"
#include "stream/files.h"
#include "stream/schema.h"

namespace leat::job {

// Returns the delimiter, which must be the same in all files; nothing if a file cannot be read (opening the
// stream reports that). Throws std::invalid_argument if two delimiters are equally likely or files differ.
std::optional<stream::Delimiter> FindDelimiter(const stream::FileSourceOptions& files,
                                               const stream::Schema& schema);

// Returns the names in the first record. Throws std::invalid_argument if files differ or cannot be read.
std::vector<std::string> ReadHeader(const stream::FileSourceOptions& files, const stream::CsvDialect& csv);

}  // namespace leat::job

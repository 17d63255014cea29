// Detects the delimiter and the column names of CSV files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
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

// Whether a record names the fields of the schema, in any order.
bool NamesFields(const stream::Schema& schema, std::string_view record);

// Sets the columns of the schema to those of the header. Throws std::invalid_argument with the file if a
// field is not among them; if a line below names them, with the command that removes the lines above.
void UseHeader(const stream::FileSourceOptions& files, std::vector<std::string> names,
               stream::Schema* schema);

}  // namespace leat::job

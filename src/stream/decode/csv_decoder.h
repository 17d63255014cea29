// Lines of delimited values to rows (see schema.h).
#pragma once

#include <memory>

#include "stream/schema.h"

namespace leat::stream {

// Throws std::invalid_argument when a field is not among the schema's columns.
std::unique_ptr<Decoder> MakeCsvDecoder(const Schema& schema);

// Splits a line (RFC 4180 but for line ends inside quotes): blanks around a field do not count
// (a tab that delimits is none), "" in a
// quoted field stands for one quote. Views look at `line` or, for quoted fields with quotes inside, at
// `scratch`. Returns an empty string, or what is wrong.
std::string SplitCsv(std::string_view line, char delimiter, std::vector<std::string_view>* fields,
                     std::string* scratch);

// What may be read behind a field that is taken for a number (number.h); of what SplitCsv returns, as much
// behind `line` has to be readable.
inline constexpr size_t kCsvReadAhead = 16;
// A whole field as a number: JSON's, or with a plus, or without digits before or after the point.
bool CsvNumber(std::string_view text, double* out);

}  // namespace leat::stream

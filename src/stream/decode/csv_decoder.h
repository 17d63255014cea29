// Decodes delimited lines to rows (see schema.h).
#pragma once

#include <memory>

#include "stream/decode/decoder.h"
#include "stream/schema.h"

namespace leat::stream {

// Throws std::invalid_argument if a field is not among the schema's columns.
std::unique_ptr<Decoder> MakeCsvDecoder(const Schema& schema);

// Splits a line (RFC 4180 except line ends inside quotes). Ignores blanks around a field, but not a tab that
// is the delimiter; "" in a quoted field is one quote. The views refer to `line` or, for quoted fields with
// quotes inside, to `scratch`. Returns an empty string, or the error.
std::string SplitCsv(std::string_view line, char delimiter, std::vector<std::string_view>* fields,
                     std::string* scratch);

// The number of readable bytes required after a field that is parsed as a number (number.h), and so after
// `line` of SplitCsv.
inline constexpr size_t kCsvReadAhead = 16;
// Parses a whole field as a number: JSON's syntax, also with a leading plus, or without digits before or
// after the decimal point.
bool CsvNumber(std::string_view text, double* out);

}  // namespace leat::stream

// Lines of comma-separated values to rows (see schema.h).
#pragma once

#include <memory>

#include "stream/schema.h"

namespace leat::stream {

// Throws std::invalid_argument when a field is not among the schema's columns.
std::unique_ptr<Decoder> MakeCsvDecoder(const Schema& schema);

// Splits a line (RFC 4180 but for line ends inside quotes): blanks around a field do not count, "" in a
// quoted field stands for one quote. Views look at `line` or, for quoted fields with quotes inside, at
// `scratch`. Returns an empty string, or what is wrong.
std::string SplitCsv(std::string_view line, std::vector<std::string_view>* fields, std::string* scratch);

}  // namespace leat::stream

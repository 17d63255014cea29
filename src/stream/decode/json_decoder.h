// Decodes flat JSON objects to rows (see schema.h).
//
// Two parsers with the same results. The scanner handles typical events, which are objects of plain numbers,
// strings without escapes, true and false, in one pass over the record. It remembers the order of keys in the
// last record, so that each key costs one comparison. Everything else, valid or not, goes to simdjson, which
// alone decides about errors.
#pragma once

#include <memory>

#include "stream/decode/decoder.h"
#include "stream/schema.h"

namespace leat::stream {

// Without `scan` simdjson parses everything, as the reference in tests of the scanner.
std::unique_ptr<Decoder> MakeJsonDecoder(const Schema& schema, bool scan = true);

}  // namespace leat::stream

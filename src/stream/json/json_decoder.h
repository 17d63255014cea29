// Decodes JSON objects to rows (see schema.h).
//
// Two parsers with the same results. JsonScanner handles typical events in one pass over the record.
// JsonParser gets everything else, valid or not, and alone decides about errors.
#pragma once

#include <memory>

#include "stream/decode/decoder.h"
#include "stream/schema.h"

namespace leat::stream {

// Without `scan` simdjson parses everything, as the reference in tests of the scanner.
std::unique_ptr<Decoder> MakeJsonDecoder(const Schema& schema, bool scan = true);

}  // namespace leat::stream

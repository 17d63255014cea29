// Flat JSON objects to rows (see schema.h).
//
// Two readers, one meaning. The scanner takes what events look like — an object of plain numbers, strings
// without escapes, true and false — in one pass straight from the record, and remembers in which order the
// last record had its keys, so that each key costs one comparison. Whatever it does not take, right or wrong,
// goes to simdjson, which alone decides what is refused and why.
#pragma once

#include <memory>

#include "stream/schema.h"

namespace leat::stream {

// `scan` off leaves all to simdjson: the reference that tests hold the scanner against.
std::unique_ptr<Decoder> MakeJsonDecoder(const Schema& schema, bool scan = true);

}  // namespace leat::stream

// Decodes CSV records to rows (see schema.h).
#pragma once

#include <memory>

#include "stream/decode/decoder.h"
#include "stream/schema.h"

namespace leat::stream {

// Throws std::invalid_argument if a field is not among the schema's columns.
std::unique_ptr<Decoder> MakeCsvDecoder(const Schema& schema);

}  // namespace leat::stream

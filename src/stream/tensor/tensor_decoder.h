// Decodes little-endian arrays to rows (see schema.h).
#pragma once

#include <memory>

#include "base/config/config.h"
#include "stream/decode/decoder.h"
#include "stream/schema.h"

namespace leat::stream {

std::unique_ptr<Decoder> MakeTensorDecoder(const Schema& schema);

// Reads dtype, shape and width of a field whose type and role are known.
void ReadTensor(const Config& config, Field* field);

}  // namespace leat::stream

// Decodes Protobuf messages to rows (see schema.h).
#pragma once

#include <memory>

#include "stream/decode/decoder.h"
#include "stream/schema.h"

namespace leat::stream {

// Needs UseDescriptor. Throws std::invalid_argument as that does.
std::unique_ptr<Decoder> MakeProtobufDecoder(const Schema& schema);

}  // namespace leat::stream

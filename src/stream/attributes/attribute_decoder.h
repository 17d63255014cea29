// Fields that come from a record's key, timestamp or headers, whatever the format of its bytes.
#pragma once

#include <memory>

#include "stream/decode/decoder.h"

namespace leat::stream {

// A decoder that adds the fields with Field::from to the rows of `bytes`, which decodes all others. Batches
// must have schema.attributes() as `wanted`, maybe with others after them. Labels that come later are
// late_labels.h's.
std::unique_ptr<Decoder> DecodeAttributes(const Schema& schema, std::unique_ptr<Decoder> bytes);

}  // namespace leat::stream

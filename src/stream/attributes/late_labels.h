// Labels that come later, in records of their own that were joined with the events (join/join_source.h).
#pragma once

#include <memory>

#include "stream/decode/decoder.h"

namespace leat::stream {

// A decoder that adds the fields that are late to the rows of `events`, which decodes all others. Batches
// must have schema.attributes() as `wanted`, maybe with others after them. An event whose label does not
// match is a dead letter, with a reason that begins "label at offset 17: ". One that has no label is counted
// as unjoined. Throws as Schema::LateLabels.
std::unique_ptr<Decoder> DecodeLateLabels(const Schema& schema, std::unique_ptr<Decoder> events);

}  // namespace leat::stream

// Settings of fields of the format tensor; its decoder is in decode/formats.h.
#pragma once

#include "base/config/config.h"
#include "stream/schema.h"

namespace leat::stream {

// Reads dtype, shape and width of a field whose type and role are known.
void ReadTensor(const Config& config, Field* field);

}  // namespace leat::stream

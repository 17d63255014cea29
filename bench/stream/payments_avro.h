// Payments of the demo's bots as Avro records.
#pragma once

#include "stream/schema.h"
#include "stream/source.h"

namespace leat::bench {

// Appends the payments of a batch of JSON to an empty batch, and its padding. `framed`: with the id of their
// schema.
void AppendAvroPayments(const stream::RecordBatch& json, bool framed, stream::RecordBatch* out);

// The schema of the bots for such records.
stream::Schema AvroPaymentSchema(bool framed);

}  // namespace leat::bench

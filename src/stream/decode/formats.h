// The decoders of the formats (see schema.h), and of fields that are beside the bytes of a record.
// MakeDecoder (decoder.h) puts them together.
#pragma once

#include <memory>

#include "base/config/config.h"
#include "stream/decode/decoder.h"
#include "stream/schema.h"

namespace leat::stream {

// CSV. Throws std::invalid_argument if a field is not among the schema's columns.
std::unique_ptr<Decoder> MakeCsvDecoder(const Schema& schema);

// JSON objects. Two parsers with the same results: JsonScanner handles typical events in one pass over the
// record. JsonParser gets everything else, valid or not, and alone decides about errors. Without `scan`
// simdjson parses everything, as the reference in tests of the scanner.
std::unique_ptr<Decoder> MakeJsonDecoder(const Schema& schema, bool scan = true);

// Protobuf messages. Needs UseDescriptor. Throws std::invalid_argument as that does.
std::unique_ptr<Decoder> MakeProtobufDecoder(const Schema& schema);

// Little-endian arrays.
std::unique_ptr<Decoder> MakeTensorDecoder(const Schema& schema);

// Adds the fields that come from a record's key, timestamp or headers (Field::from) to the rows of `bytes`,
// which decodes all others. Batches must have schema.attributes() as `wanted`, maybe with others after them.
// Labels that come later are DecodeLateLabels's.
std::unique_ptr<Decoder> DecodeAttributes(const Schema& schema, std::unique_ptr<Decoder> bytes);

// Adds labels that come later, in records of their own that were joined with the events (join/join_source.h),
// to the rows of `events`, which decodes all others. Batches are as for DecodeAttributes. An event whose
// label does not match is a dead letter, with a reason that begins "label at offset 17: ". An event without a
// label is counted as unjoined. Throws as Schema::LateLabels.
std::unique_ptr<Decoder> DecodeLateLabels(const Schema& schema, std::unique_ptr<Decoder> events);

// Settings of fields of the format tensor; its decoder is in decode/formats.h.

// Reads dtype, shape and width of a field whose type and role are known.
void ReadTensor(const Config& config, Field* field);

}  // namespace leat::stream

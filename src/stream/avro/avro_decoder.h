// Decodes Avro records to rows (see avro_settings.h for where their schemas are).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stream/avro/schema_registry.h"
#include "stream/decode/decoder.h"
#include "stream/schema.h"

namespace leat::stream {

// Sets what the files of `schema->avro` contain, after a check that the job's fields fit. Throws
// std::invalid_argument with the place if they do not: of a folder if none of its schemas fits. Returns why
// others of a folder do not fit, one line each; these are left out.
std::vector<std::string> UseAvro(const AvroTexts& texts, Schema* schema);

// Throws std::invalid_argument if a schema does not fit, or a secret of the registry cannot be read.
std::unique_ptr<Decoder> MakeAvroDecoder(const Schema& schema);
// The same with a registry of the caller's, for tests.
std::unique_ptr<Decoder> MakeAvroDecoder(const Schema& schema, std::unique_ptr<SchemaRegistry> registry);

}  // namespace leat::stream

// The files that the schema of a job names, Avro schemas or a Protobuf descriptor: read where the job is
// loaded and then kept in its `resolved:` section.
#pragma once

#include <string>
#include <vector>

#include "base/config/config.h"
#include "stream/schema.h"

namespace leat::job {

// Completes a schema from `resolved`, or else from the files, whose paths are relative to `data` or to the
// current directory. Throws std::invalid_argument with the place if they do not fit. Returns why schemas of a
// folder do not fit, one line each; these are left out.
std::vector<std::string> ReadSchemaFiles(const Config& resolved, const std::string& data,
                                         stream::Schema* schema);

// To `resolved: {avro: {ID: TEXT}}` or `resolved: {descriptor: TEXT}`, what the schema's files contain; no
// entry if there are none.
Config WithSchemaFiles(const Config& resolved, const stream::Schema& schema);

// The texts of the files that the settings name, without blanks. Throws as above.
stream::AvroTexts ReadAvroFiles(const stream::AvroSettings& avro, const std::string& data);

}  // namespace leat::job

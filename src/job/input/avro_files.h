// The Avro schemas of a job, read from files where the job is loaded and then kept in its `resolved:`
// section.
#pragma once

#include <string>

#include "base/config.h"
#include "stream/avro/avro_settings.h"

namespace leat::job {

// The texts of the files that the settings name, without blanks. Paths are relative to `data`, or to the
// current directory. Throws std::invalid_argument with the place.
stream::AvroTexts ReadAvroFiles(const stream::AvroSettings& avro, const std::string& data);

// To and from `resolved: {avro: {ID: TEXT}}`; no entry if there are no texts.
Config WithAvro(const Config& resolved, const stream::AvroTexts& texts);
stream::AvroTexts AvroTextsIn(const Config& resolved);

}  // namespace leat::job

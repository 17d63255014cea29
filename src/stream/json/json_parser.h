// The complete parser of JSON records, by simdjson. See MakeJsonDecoder.
#pragma once

#include <simdjson.h>

#include <string_view>

#include "stream/decode/decoder.h"
#include "stream/json/json_fields.h"

namespace leat::stream {

// The spelling of a value.
inline std::string_view TextOf(simdjson::ondemand::value& value) {
  const std::string_view text = value.raw_json_token();
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

// Calls `read` with the object that the record is. Nothing may follow it, unless `stopped` says afterwards
// that the rest is not of interest. RecordBatch::kPadding bytes after the record are readable.
template <class Read, class Stopped>
simdjson::error_code ReadJsonObject(simdjson::ondemand::parser* parser, std::string_view record,
                                    const Read& read, const Stopped& stopped) {
  simdjson::ondemand::document document;
  const simdjson::padded_string_view padded(record, record.size() + RecordBatch::kPadding);
  if (const auto error = parser->iterate(padded).get(document)) return error;
  simdjson::ondemand::object object;
  if (const auto error = document.get_object().get(object)) return error;
  if (const auto error = read(object)) return error;
  if (stopped()) return simdjson::SUCCESS;
  const char* behind;
  return document.current_location().get(behind) == simdjson::OUT_OF_BOUNDS ? simdjson::SUCCESS
                                                                            : simdjson::TRAILING_CONTENT;
}

// Not thread-safe.
class JsonParser {
 public:
  // `fields` must outlive it.
  explicit JsonParser(JsonFields& fields) : fields_(fields) {}

  // Writes the record to a row, or sets the reason why not. RecordBatch::kPadding bytes after it are
  // readable.
  bool Parse(std::string_view record, const Row& row, Misfit* reason);

 private:
  // Each ends early with a reason if a field does not match. `index`: of the object in `fields_`.
  simdjson::error_code ParseObject(size_t index, simdjson::ondemand::object object, const Row& row,
                                   Misfit* reason);
  // The value of a key that leads to fields.
  simdjson::error_code ParseInner(int place, simdjson::ondemand::value value, const Row& row, Misfit* reason);

  JsonFields& fields_;
  simdjson::ondemand::parser parser_;
};

}  // namespace leat::stream

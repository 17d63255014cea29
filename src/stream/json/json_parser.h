// The complete parser of JSON records, by simdjson. See json_decoder.h.
#pragma once

#include <simdjson.h>

#include <string_view>

#include "stream/decode/decoder.h"
#include "stream/json/json_fields.h"

namespace leat::stream {

// Not thread-safe.
class JsonParser {
 public:
  // `fields` must outlive it.
  explicit JsonParser(JsonFields& fields) : fields_(fields) {}

  // Writes the record to a row, or sets the reason why not. RecordBatch::kPadding bytes after it are
  // readable.
  bool Parse(std::string_view record, const Row& row, Misfit* reason);

 private:
  // Each ends early with a reason if a field does not match.
  simdjson::error_code ParseRecord(std::string_view record, const Row& row, Misfit* reason);
  // `index`: of the object in `fields_`.
  simdjson::error_code ParseObject(size_t index, simdjson::ondemand::object object, const Row& row,
                                   Misfit* reason);
  // The value of a key that leads to fields.
  simdjson::error_code ParseInner(int place, simdjson::ondemand::value value, const Row& row, Misfit* reason);

  JsonFields& fields_;
  simdjson::ondemand::parser parser_;
};

}  // namespace leat::stream

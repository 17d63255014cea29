// Text of JSON: the object that a record is, where a value ends, and why a record is no object.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "stream/source.h"

namespace leat::stream {

// The end of the array or object at the beginning of a text, by its brackets alone; npos if the text ends
// before. Thread-safe.
size_t EndOfJson(std::string_view text);

// Why a record that a parser has rejected is no JSON object: text follows it, or bytes come before it. Empty
// for other causes. Thread-safe.
std::string WhyNoObject(std::string_view record);

// Numbers that JSON does not have, as Python's json and others write them. NaN is read as null.
inline bool IsNaN(std::string_view token) {
  return token == "NaN";
}
inline bool IsInfinity(std::string_view token) {
  return token == "Infinity" || token == "-Infinity";
}
// Why a record with this token has no such value.
std::string WhyNoJson(std::string_view token);

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

}  // namespace leat::stream

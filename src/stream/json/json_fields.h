// The fields of a schema as a tree of keys, and those found in the current JSON record.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stream/decode/row_writer.h"
#include "stream/schema.h"

namespace leat::stream {

// Each key of a path has a place: a field (from 0 on), or an object with more keys (below kUnknown). Not
// thread-safe.
class JsonFields {
 public:
  static constexpr int kUnknown = -1;

  // The schema must outlive it.
  explicit JsonFields(const Schema& schema);

  // The place of a key of an object (0: the record itself), or kUnknown.
  int Find(size_t object, std::string_view key) const {
    const auto& places = objects_[object].places;
    const auto it = places.find(key);
    return it == places.end() ? kUnknown : it->second;
  }
  size_t objects() const { return objects_.size(); }
  static bool IsObject(int place) { return place < kUnknown; }
  // The index of the object at a place.
  static size_t ObjectAt(int place) { return static_cast<size_t>(kUnknown - place); }
  const FieldWriter& operator[](int place) const { return *fields_[static_cast<size_t>(place)]; }
  // The keys that lead to the place, as messages show them.
  const std::string& PathOf(int place) const {
    return IsObject(place) ? objects_[ObjectAt(place)].path : (*this)[place].name();
  }

  void BeginRecord() {
    ++record_;
    missing_ = seen_.size();
  }
  // False if the record has had the place before.
  bool See(int place) { return place >= 0 ? SeeField(place) : SeeAt(fields_.size() + ObjectAt(place) - 1); }
  bool SeeField(int place) { return SeeAt(static_cast<size_t>(place)); }
  // Writes the default of each field that the record lacks; false if one has none.
  bool FillMissing(const Row& row) const { return missing_ == 0 || FillDefaults(row) == nullptr; }
  // The first field that is missing and has no default, or null.
  const FieldWriter* FillDefaults(const Row& row) const;

 private:
  bool SeeAt(size_t i) {
    uint64_t& seen = seen_[i];
    if (seen == record_) return false;
    seen = record_;
    --missing_;
    return true;
  }
  struct Object {
    std::unordered_map<std::string_view, int> places;
    std::string path;
  };
  int PlaceOfObject(size_t parent, const std::string& key, std::string path);

  std::vector<std::unique_ptr<const FieldWriter>> fields_;
  std::vector<Object> objects_;
  std::vector<uint64_t> seen_;  // number of the last record with each field, and with each object after them
  uint64_t record_ = 0;
  size_t missing_ = 0;
};

// Where a JSON value ends, and why a record is no JSON object.

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

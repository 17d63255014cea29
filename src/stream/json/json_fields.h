// The fields of a schema as a tree of keys, and those found in the current JSON record.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stream/decode/row_writer.h"
#include "stream/schema.h"

namespace leat::stream {

// Each key of a path has a place: a field, or an object with more keys. Not thread-safe.
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
  bool IsObject(int place) const { return place >= first_object_; }
  // The index of the object at a place.
  size_t ObjectAt(int place) const { return static_cast<size_t>(place - first_object_) + 1; }
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
  bool See(int place) {
    uint64_t& seen = seen_[static_cast<size_t>(place)];
    if (seen == record_) return false;
    seen = record_;
    --missing_;
    return true;
  }
  // Writes the default of each field that the record lacks; false if one has none.
  bool FillMissing(const Row& row) const { return missing_ == 0 || FillDefaults(row) == nullptr; }
  // The first field that is missing and has no default, or null.
  const FieldWriter* FillDefaults(const Row& row) const;

 private:
  struct Object {
    std::unordered_map<std::string_view, int> places;
    std::string path;
  };
  int PlaceOfObject(size_t parent, const std::string& key, std::string path);

  std::vector<std::unique_ptr<const FieldWriter>> fields_;
  int first_object_ = 0;
  std::vector<Object> objects_;
  std::vector<uint64_t> seen_;  // number of the last record with the place
  uint64_t record_ = 0;
  size_t missing_ = 0;
};

}  // namespace leat::stream

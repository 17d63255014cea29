#include "stream/json/json_fields.h"

#include <span>
#include <utility>

namespace leat::stream {

JsonFields::JsonFields(const Schema& schema) : objects_(1) {
  auto writers = MakeWriters(schema);
  std::vector<const Field*> read;
  for (size_t i = 0; i < writers.size(); ++i) {
    if (!writers[i]) continue;
    read.push_back(&schema.fields[i]);
    fields_.push_back(std::move(writers[i]));
  }
  for (size_t i = 0; i < read.size(); ++i) {
    const std::span keys(read[i]->path);
    size_t object = 0;
    for (size_t k = 0; k + 1 < keys.size(); ++k)
      object = ObjectAt(PlaceOfObject(object, keys[k], PathText(keys.first(k + 1))));
    objects_[object].places.emplace(keys.back(), static_cast<int>(i));
  }
  seen_.resize(fields_.size() + objects_.size() - 1);
}

int JsonFields::PlaceOfObject(size_t parent, const std::string& key, std::string path) {
  const int next = kUnknown - static_cast<int>(objects_.size());
  const auto [at, added] = objects_[parent].places.emplace(key, next);
  const int place = at->second;
  if (added) objects_.push_back({.places = {}, .path = std::move(path)});
  return place;
}

const FieldWriter* JsonFields::FillDefaults(const Row& row) const {
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (seen_[i] == record_) continue;
    if (!fields_[i]->has_default()) return fields_[i].get();
    fields_[i]->WriteDefault(row);
  }
  return nullptr;
}

}  // namespace leat::stream

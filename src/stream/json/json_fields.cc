#include "stream/json/json_fields.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/text.h"

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

size_t EndOfJson(std::string_view text) {
  size_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      while (++i < text.size() && text[i] != '"') i += text[i] == '\\';
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && (depth <= 1 || --depth == 0)) {
      return i + 1;
    }
  }
  return text.npos;
}

std::string WhyNoJson(std::string_view token) {
  return Quoted(token) + " is no JSON" + (IsInfinity(token) ? "; write null, or leave it out" : "");
}

std::string WhyNoObject(std::string_view record) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (record.starts_with(kMark)) return "it begins with a byte order mark";
  if (record.size() > kFrameBytes && IsFramed(AsBytes(record))) {
    return "it begins with the 5 bytes of a schema registry, 0 and the id of schema " +
           std::to_string(SchemaIdOf(AsBytes(record))) +
           (record[kFrameBytes] == '{' ? "; its producer needs a plain JSON serializer"
                                       : ", and is no JSON; is it of the format avro or protobuf?");
  }
  const auto begin = std::min(record.find_first_not_of(" \t\r\n"), record.size());
  if (!record.substr(begin).starts_with('{')) return "";
  const size_t size = EndOfJson(record.substr(begin));
  if (size == record.npos) return "";
  const std::string_view rest = Trimmed(record.substr(begin + size));
  return rest.empty() ? "" : Quoted(rest) + " follows it";
}

}  // namespace leat::stream

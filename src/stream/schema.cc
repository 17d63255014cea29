#include "stream/schema.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "base/bytes.h"

namespace leat::stream {
namespace {

// Raised when a decoder gives other numbers for the same record.
constexpr uint32_t kDecoderVersion = 1;
constexpr size_t kMaxFields = 4096;

Role RoleFrom(const Config& config) {
  if (!config.Has("role")) return Role::kFeature;
  const std::string name = config.At("role").OneOf("role", {"feature", "label", "truth", "ignore"});
  if (name == "label") return Role::kLabel;
  if (name == "truth") return Role::kTruth;
  return name == "ignore" ? Role::kIgnore : Role::kFeature;
}

Field::Type TypeFrom(const Config& config, Role role) {
  if (role == Role::kIgnore && !config.Has("type")) return Field::Type::kString;
  const std::string name = config.At("type").OneOf("type", {"number", "category", "string", "bytes"});
  if (name == "number") return Field::Type::kNumber;
  if (name == "category") return Field::Type::kCategory;
  return name == "bytes" ? Field::Type::kBytes : Field::Type::kString;
}

std::vector<std::string> NamesFrom(const Config& list, std::string_view what) {
  if (!list.IsList() || list.size() == 0) list.Fail(std::string(what) + " must be a list of one or more");
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (size_t i = 0; i < list.size(); ++i) {
    names.push_back(list[i].String());
    if (!seen.insert(names.back()).second)
      list[i].Fail("'" + names.back() + "' is in " + std::string(what) + " twice");
  }
  return names;
}

void ReadNumber(const Config& config, Field* field) {
  field->log = config.Bool("log", false);
  field->mean = config.Number("mean", 0);
  field->std = config.Number("std", 1);
  if (!(field->std > 0)) config.At("std").Fail("std is " + config.At("std").String() + "; must be above 0");
  field->period = config.Number("period", 0);
  if (config.Has("period") && !(field->period > 0)) config.At("period").Fail("period must be above 0");
  if (field->period > 0 && (field->log || config.Has("mean") || config.Has("std"))) {
    config.Fail("field '" + field->name + "' has a period, which goes without log, mean and std");
  }
  field->classes = static_cast<uint32_t>(config.Integer("classes", 0, 2, 1 << 24));
}

void ReadCategory(const Config& config, Field* field) {
  if (config.Has("values")) field->values = NamesFrom(config.At("values"), "values");
  field->buckets = static_cast<uint32_t>(config.Integer("buckets", 0, 1, Schema::kMaxFeatures));
  if (field->role == Role::kLabel && field->values.empty()) {
    config.Fail("label '" + field->name +
                "' is a category and needs its values, in the order of the classes");
  }
  if (field->values.empty() == (field->buckets == 0)) {
    config.Fail("category '" + field->name + "' needs either values or buckets");
  }
}

// Keys that belong to another type or role are named with what they are for.
void CheckKeys(const Config& config, const Field& field) {
  config.Allow({"type", "role", "log", "mean", "std", "period", "classes", "values", "buckets", "width"});
  const auto only = [&](const char* key, bool fits, const char* what) {
    if (config.Has(key) && !fits)
      config.At(key).Fail(std::string(key) + " is for " + what + "; '" + field.name + "' is none");
  };
  using T = Field::Type;
  const bool feature = field.role == Role::kFeature, label = field.role == Role::kLabel;
  only("log", field.type == T::kNumber && feature, "features that are numbers");
  only("period", field.type == T::kNumber && feature, "features that are numbers");
  only("mean", (field.type == T::kNumber || field.type == T::kBytes) && feature,
       "features that are numbers or bytes");
  only("std", (field.type == T::kNumber || field.type == T::kBytes) && feature,
       "features that are numbers or bytes");
  only("classes", field.type == T::kNumber && label, "labels that are numbers");
  only("values", field.type == T::kCategory, "categories");
  only("buckets", field.type == T::kCategory && feature, "features that are categories");
  only("width", field.type == T::kBytes, "bytes");
}

Field FieldFrom(const std::string& name, const Config& config, Schema::Format format) {
  Field field;
  field.name = name;
  field.where = config.where();
  if (!config.IsMap()) config.Fail("field '" + name + "' must be a map, as {type: number}");
  config.Allow({"type", "role", "log", "mean", "std", "period", "classes", "values", "buckets", "width"});
  field.role = RoleFrom(config);
  field.type = TypeFrom(config, field.role);
  CheckKeys(config, field);
  switch (field.type) {
    case Field::Type::kNumber:
      ReadNumber(config, &field);
      break;
    case Field::Type::kCategory:
      ReadCategory(config, &field);
      break;
    case Field::Type::kString:
      if (field.role != Role::kIgnore)
        config.Fail("a string can only be ignored; is '" + name + "' a category?");
      break;
    case Field::Type::kBytes:
      if (format != Schema::Format::kIdx) config.Fail("field '" + name + "': bytes are for the format idx");
      if (field.role == Role::kLabel)
        config.Fail("label '" + name + "' cannot be bytes; a number is one byte");
      field.mean = config.Number("mean", 0);
      field.std = config.Number("std", 1);
      if (!(field.std > 0))
        config.At("std").Fail("std is " + config.At("std").String() + "; must be above 0");
      field.width = static_cast<uint32_t>(config.Integer("width", 1, 1, Schema::kMaxFeatures));
      break;
  }
  if (field.role == Role::kTruth && field.type != Field::Type::kNumber)
    config.Fail("truth '" + name + "' must be a number");
  return field;
}

// A label or truth that is there twice would silently win over the first.
void CheckSchema(const Schema& schema, const Config& config) {
  const Field* one[2] = {nullptr, nullptr};
  uint64_t features = 0;
  for (const Field& field : schema.fields) {
    features += field.features();
    if (field.role != Role::kLabel && field.role != Role::kTruth) continue;
    const Field*& first = one[field.role == Role::kTruth];
    if (first) {
      throw std::invalid_argument(field.where + ": '" + field.name + "' is a second " +
                                  (field.role == Role::kTruth ? "truth" : "label") + " after '" +
                                  first->name + "'");
    }
    first = &field;
  }
  if (features == 0) config.Fail("the schema has no features");
  if (features > Schema::kMaxFeatures) {
    config.Fail("the schema has " + std::to_string(features) + " features; at most " +
                std::to_string(Schema::kMaxFeatures));
  }
}

const Field* WithRole(const std::vector<Field>& fields, Role role) {
  const auto it = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.role == role; });
  return it == fields.end() ? nullptr : &*it;
}

}  // namespace

uint32_t Field::features() const {
  if (role != Role::kFeature) return 0;
  switch (type) {
    case Type::kNumber:
      return period > 0 ? 2 : 1;
    case Type::kCategory:
      return values.empty() ? buckets : static_cast<uint32_t>(values.size());
    case Type::kBytes:
      return width;
    case Type::kString:
      return 0;
  }
  return 0;
}

uint32_t Schema::features() const {
  uint32_t sum = 0;
  for (const Field& field : fields) sum += field.features();
  return sum;
}

const Field* Schema::label() const {
  return WithRole(fields, Role::kLabel);
}
const Field* Schema::truth() const {
  return WithRole(fields, Role::kTruth);
}

uint32_t Schema::classes() const {
  const Field* field = label();
  if (!field) return 0;
  return field->type == Field::Type::kCategory ? static_cast<uint32_t>(field->values.size()) : field->classes;
}

Schema Schema::FromConfig(const Config& config) {
  if (!config.IsMap()) config.Fail("schema must be a map with format and fields");
  config.Allow({"format", "columns", "fields"});
  Schema schema;
  const std::string format = config.At("format").OneOf("format", {"json", "csv", "idx"});
  schema.format = format == "csv" ? Format::kCsv : format == "idx" ? Format::kIdx : Format::kJson;
  const Config fields = config.At("fields");
  if (!fields.IsMap()) fields.Fail("fields must be a map from name to {type: ...}");
  const std::vector<std::string> names = fields.Keys();
  if (names.size() > kMaxFields) {
    fields.Fail(std::to_string(names.size()) + " fields; at most " + std::to_string(kMaxFields));
  }
  for (const std::string& name : names)
    schema.fields.push_back(FieldFrom(name, fields.At(name), schema.format));
  CheckSchema(schema, config);
  if (config.Has("columns")) {
    const Config columns = config.At("columns");
    if (schema.format != Format::kCsv) columns.Fail("columns are for the format csv");
    schema.UseColumns(NamesFrom(columns, "columns"));
  }
  return schema;
}

void Schema::UseColumns(std::vector<std::string> names) {
  for (const Field& field : fields) {
    if (std::find(names.begin(), names.end(), field.name) != names.end()) continue;
    const std::string near = Nearest(field.name, names);
    throw std::invalid_argument(field.where + ": field '" + field.name + "' is not among the columns" +
                                (near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  columns = std::move(names);
}

uint64_t Schema::hash() const {
  ByteWriter w;
  w.Put(kDecoderVersion);
  w.Put(format);
  w.Put(columns.size());
  for (const std::string& name : columns) w.PutString(name);
  for (const Field& f : fields) {
    w.PutString(f.name);
    w.Put(f.role);
    w.Put(f.type);
    w.Put(f.log);
    w.Put(f.mean);
    w.Put(f.std);
    w.Put(f.period);
    w.Put(f.values.size());
    for (const std::string& value : f.values) w.PutString(value);
    w.Put(f.buckets);
    w.Put(f.classes);
    w.Put(f.width);
  }
  return Checksum(w.view());
}

}  // namespace leat::stream

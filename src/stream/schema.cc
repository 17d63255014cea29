#include "stream/schema.h"

#include <algorithm>
#include <stdexcept>

#include "base/bytes.h"
#include "stream/decode/canonical.h"
#include "stream/decode/row_writer.h"

namespace leat::stream {
namespace {

// Increment when a decoder gives other numbers for the same record. Since version 2, a category takes all
// spellings of a number or boolean for one value; records without such a category decode as in version 1.
uint32_t DecoderVersion(const Schema& schema) {
  CanonicalBuffer buffer;
  const auto compares = [&](const Field& field) {
    return field.type == Field::Type::kCategory && field.role != Role::kIgnore &&
           (field.values.empty() || std::ranges::any_of(field.values, [&](const std::string& value) {
              return CanonicalSpelling(value, schema.decimal, &buffer).has_value();
            }));
  };
  return std::ranges::any_of(schema.fields, compares) ? 2 : 1;
}

void PutFallback(const Field::Value& value, size_t field, ByteWriter* w) {
  w->PutString("default");
  w->Put(field);
  if (const auto* text = std::get_if<std::string>(&value)) {
    w->PutString(*text);
  } else if (const auto* items = std::get_if<std::vector<double>>(&value)) {
    w->Put(items->size());
    for (const double x : *items) w->Put(x);
  } else {
    w->Put(std::get<double>(value));
  }
}

bool HasRole(const std::vector<Field>& fields, Role role) {
  return std::ranges::any_of(fields, [role](const Field& f) { return f.role == role; });
}

// As many as a line has room for.
std::string ListedNames(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) list += (i > 0 ? ", " : "") + Quoted(names[i]);
  return list + (names.size() > kMost ? ", … (" + std::to_string(names.size()) + ")" : "");
}

}  // namespace

uint32_t Field::features() const {
  if (role != Role::kFeature) return 0;
  switch (type) {
    case Type::kNumber:
      return period > 0 ? 2 * width : width;
    case Type::kCategory:
      return values.empty() ? buckets : static_cast<uint32_t>(values.size());
    case Type::kBytes:
    case Type::kId:
    case Type::kCharacters:
      return width;
    case Type::kText:
      return list ? width : token_ids() - 1;  // padding does not occur
    case Type::kString:
      return 0;
  }
  return 0;
}

uint32_t Field::token_ids() const {
  if (tokens == Tokens::kBytes) return 257;
  return buckets > 0 ? buckets : static_cast<uint32_t>(values.size()) + 2;
}

uint32_t Field::labels() const {
  if (type == Type::kCharacters) return width;
  return role == Role::kLabel ? 1 : 0;
}

uint32_t Field::label_classes() const {
  if (labels() == 0) return 0;
  return type == Type::kNumber ? classes : static_cast<uint32_t>(values.size());
}

uint32_t Field::ids() const {
  if (role != Role::kFeature) return 0;
  switch (type) {
    case Type::kId:
      return below;
    case Type::kCharacters:
      return static_cast<uint32_t>(values.size());
    case Type::kBytes:
      return mean == 0 && std == 1 && !running ? 256 : 0;
    case Type::kText:
      return list ? token_ids() : 0;
    default:
      return 0;
  }
}

std::string Field::path_text() const {
  return has_own_path() ? PathText(path) : name;
}

std::string PathText(std::span<const std::string> keys) {
  std::string text;
  for (const std::string& key : keys) {
    if (&key != keys.data()) text += '.';
    const bool plain = !key.empty() && key.find('.') == std::string::npos;
    text += plain ? key : '"' + key + '"';
  }
  return text;
}

void Field::CheckFallback() const {
  const std::string why = FieldWriter(*this, 0, 0).DefaultMisfit();
  if (!why.empty()) throw std::invalid_argument(where + ": default of " + why);
}

uint32_t Schema::features() const {
  uint32_t sum = 0;
  for (const Field& field : fields) sum += field.features();
  return sum;
}

uint32_t Schema::labels() const {
  uint32_t sum = 0;
  for (const Field& field : fields) sum += field.labels();
  return std::max(1u, sum);
}

std::vector<uint32_t> Schema::running_features() const {
  std::vector<uint32_t> running;
  uint32_t first = 0;
  for (const Field& field : fields) {
    for (uint32_t i = 0; field.running && i < field.features(); ++i) running.push_back(first + i);
    first += field.features();
  }
  return running;
}

bool Schema::has_label() const {
  return std::ranges::any_of(fields, [](const Field& f) { return f.labels() > 0; });
}

std::vector<Attribute> Schema::attributes() const {
  std::vector<Attribute> found;
  for (const Field& field : fields) {
    if (field.from && std::ranges::find(found, *field.from) == found.end()) found.push_back(*field.from);
  }
  return found;
}

bool Schema::has_late_labels() const {
  return std::ranges::any_of(fields, &Field::is_late);
}

Schema Schema::LateLabels() const {
  Schema late;
  for (const Field& field : fields) {
    if (!field.is_late()) continue;
    const bool csv = label_records && label_records->format == Format::kCsv;
    if (!label_records || (csv && field.has_own_path())) {
      throw std::invalid_argument(
          field.where + ": '" + field.name +
          (csv ? "' has a path, and the labels are csv: it is the column with its name"
               : "' comes from labels, and the stream has none (stream: labels:)"));
    }
    late.fields.push_back(field);
    late.fields.back().from.reset();
  }
  late.max_record_bytes = max_record_bytes;
  if (!label_records) return late;
  late.format = label_records->format;
  late.delimiter = label_records->delimiter;
  if (!label_records->columns.empty()) late.UseColumns(label_records->columns);
  return late;
}

Schema Schema::WithoutLateLabels() const {
  Schema schema = *this;
  std::erase_if(schema.fields, [](const Field& field) { return field.is_late(); });
  return schema;
}

Schema Schema::WithLabelsInRecord() const {
  Schema schema = *this;
  for (Field& field : schema.fields) {
    if (!field.is_late()) continue;
    field.from.reset();
    field.path = {field.name};
  }
  return schema;
}

bool Schema::has_truth() const {
  return HasRole(fields, Role::kTruth);
}

uint32_t Schema::classes() const {
  uint32_t classes = 0;  // equal for all labels: CheckLabels
  for (const Field& field : fields) classes = std::max(classes, field.label_classes());
  return classes;
}

void Schema::UseColumns(std::vector<std::string> names, const std::string& file) {
  const std::string in_file = file.empty() ? "" : ": " + file;
  for (const Field& field : fields) {
    if (field.from) continue;
    const auto there = std::ranges::count(names, field.name);
    if (there == 1) continue;
    if (there > 1) {
      throw std::invalid_argument(field.where + in_file + ": " + std::to_string(there) +
                                  " columns have the name '" + field.name + "'");
    }
    const std::string near = Nearest(field.name, names);
    throw std::invalid_argument(
        field.where + in_file + ": field '" + field.name + "' is not among the columns" +
        (near.empty() ? "; there are " + ListedNames(names) : "; did you mean '" + near + "'?"));
  }
  columns = std::move(names);
}

uint64_t Schema::hash() const {
  ByteWriter w;
  w.Put(DecoderVersion(*this));
  w.Put(format);
  if (delimiter != ',')
    w.Put(delimiter);  // cuts of comma files keep the hash they had before there were other delimiters
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
    if (f.from) {
      w.Put(f.from->kind);
      w.PutString(f.from->header);
    }
    if (f.type != Field::Type::kId) continue;
    w.Put(f.below);
    w.Put(f.pad);
    w.Put(f.list);
  }
  // Only where they are set: schemas keep the hash that they had before there were such settings.
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field& f = fields[i];
    if (f.has_own_path()) {
      w.PutString("path");
      w.Put(i);
      w.Put(f.path.size());
      for (const std::string& key : f.path) w.PutString(key);
    }
    if (f.fallback) PutFallback(*f.fallback, i, &w);
    if (f.type == Field::Type::kText || (f.type == Field::Type::kNumber && f.list) || f.truncate) {
      w.PutString("list");
      w.Put(i);
      w.Put(f.list);
      w.Put(f.tokens);
      w.Put(f.truncate);
    }
    if (format == Format::kTensor) w.Put(f.element);
  }
  if (dialect() != CsvDialect{.delimiter = delimiter} || decimal != '.') {
    w.PutString("dialect");
    w.Put(quote);
    w.Put(escape);
    w.Put(decimal);
  }
  if (missing) {
    w.PutString("missing");
    w.Put(missing->size());
    for (const std::string& text : *missing) w.PutString(text);
  }
  if (max_record_bytes != kDefaultRecordBytes) {
    w.PutString("max_record_bytes");
    w.Put(max_record_bytes);
  }
  if (label_records) {
    w.PutString("labels");
    w.Put(label_records->format);
    w.Put(label_records->delimiter);
    w.Put(label_records->columns.size());
    for (const std::string& name : label_records->columns) w.PutString(name);
    w.Put(label_records->negative);
  }
  if (format == Format::kAvro) {
    w.Put(avro.framed());
    for (const auto& [id, text] : avro.texts) {
      w.Put(id);
      w.PutString(text);
    }
  }
  if (format == Format::kProtobuf) {
    w.PutString(protobuf.message);
    w.Put(protobuf.framed);
    w.PutString(protobuf.descriptor);
  }
  return Checksum(w.view());
}

}  // namespace leat::stream

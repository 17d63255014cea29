#include "stream/schema.h"

#include <cstdlib>
#include <stdexcept>
#include <type_traits>

#include "base/bytes.h"
#include "base/path/paths.h"
#include "base/text.h"
#include "stream/decode/row_writer.h"
#include "stream/decode/text.h"

namespace leat::stream {
namespace {

constexpr size_t kMaxSecretBytes = 64 << 10;

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

void PutValue(std::string_view text, ByteWriter* w) {
  w->PutString(text);
}
void PutValue(const std::vector<std::string>& texts, ByteWriter* w) {
  w->Put(texts.size());
  for (const std::string& text : texts) w->PutString(text);
}
void PutValue(const std::vector<double>& items, ByteWriter* w) {
  w->Put(items.size());
  for (const double x : items) w->Put(x);
}
template <class Number>
requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
void PutValue(Number value, ByteWriter* w) {
  w->Put(value);
}
// The values one after the other, lists with their sizes.
void PutAll(ByteWriter* w, const auto&... values) {
  (PutValue(values, w), ...);
}

// As many as a line has room for.
std::string ListedNames(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) list += (i > 0 ? ", " : "") + Quoted(names[i]);
  return list + (names.size() > kMost ? StrCat(", … (", names.size(), ")") : "");
}

}  // namespace

Secret ReadSecret(const Config& config, const std::string& setting) {
  if (!config.IsMap()) {
    config.Fail("'" + setting +
                "' is a secret, and copies of the job would have it; name where it is: {env: NAME} or {file: "
                "PATH}");
  }
  config.Allow({"env", "file"});
  Secret secret{.setting = setting, .variable = config.String("env", ""), .file = config.String("file", "")};
  if (secret.variable.empty() == secret.file.empty())
    config.Fail("'" + setting +
                "' is read from a variable of the environment or from a file: {env: NAME} or {file: PATH}");
  return secret;
}

Result<std::string> ReadSecretValue(const Secret& secret) {
  if (!secret.variable.empty()) {
    const char* value = std::getenv(secret.variable.c_str());
    if (value != nullptr && *value != 0) return std::string(value);
    return Status(Code::kInvalidArgument,
                  "'" + secret.setting + "': the environment has no variable " + secret.variable);
  }
  LEAT_ASSIGN_OR_RETURN(std::string value,
                        ReadFirstBytes(secret.file, kMaxSecretBytes + 1).With("'" + secret.setting + "'"));
  if (value.size() > kMaxSecretBytes)
    return Status(Code::kInvalidArgument, StrCat("'", secret.setting, "': ", secret.file, " has more than ",
                                                 kMaxSecretBytes, " bytes"));
  while (!value.empty() && (value.back() == '\n' || value.back() == '\r')) value.pop_back();
  if (value.empty())
    return Status(Code::kInvalidArgument, "'" + secret.setting + "': " + secret.file + " is empty");
  return value;
}

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
  return std::ranges::any_of(fields, [](const Field& f) { return f.role == Role::kTruth; });
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
      throw std::invalid_argument(
          StrCat(field.where, in_file, ": ", there, " columns have the name '", field.name, "'"));
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
  PutAll(&w, DecoderVersion(*this), format);
  // Cuts of comma files keep the hash they had before there were other delimiters.
  if (delimiter != ',') w.Put(delimiter);
  PutAll(&w, columns);
  for (const Field& f : fields) {
    PutAll(&w, f.name, f.role, f.type, f.log, f.mean, f.std, f.period, f.values, f.buckets, f.classes,
           f.width);
    if (f.from) PutAll(&w, f.from->kind, f.from->header);
    if (f.type == Field::Type::kId) PutAll(&w, f.below, f.pad, f.list);
  }
  // Only where they are set: schemas keep the hash that they had before there were such settings.
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field& f = fields[i];
    if (f.has_own_path()) PutAll(&w, "path", i, f.path);
    if (f.fallback) {
      PutAll(&w, "default", i);
      std::visit([&w](const auto& value) { PutValue(value, &w); }, *f.fallback);
    }
    if (f.type == Field::Type::kText || (f.type == Field::Type::kNumber && f.list) || f.truncate)
      PutAll(&w, "list", i, f.list, f.tokens, f.truncate);
    if (format == Format::kTensor) w.Put(f.element);
  }
  if (dialect() != CsvDialect{.delimiter = delimiter} || decimal != '.')
    PutAll(&w, "dialect", quote, escape, decimal);
  if (missing) PutAll(&w, "missing", *missing);
  if (max_record_bytes != kDefaultRecordBytes) PutAll(&w, "max_record_bytes", max_record_bytes);
  if (label_records) {
    PutAll(&w, "labels", label_records->format, label_records->delimiter, label_records->columns,
           label_records->negative);
  }
  if (format == Format::kAvro) {
    w.Put(avro.framed());
    for (const auto& [id, text] : avro.texts) PutAll(&w, id, text);
  }
  if (format == Format::kProtobuf) PutAll(&w, protobuf.message, protobuf.framed, protobuf.descriptor);
  return Checksum(w.view());
}

}  // namespace leat::stream

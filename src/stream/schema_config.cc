// Schema::FromConfig: from the section `schema:` of a job to the schema.
#include "stream/schema.h"

#include <set>
#include <stdexcept>
#include <utility>

#include "base/fields/word.h"
#include "base/text.h"
#include "stream/csv/csv_settings.h"
#include "stream/decode/row_writer.h"
#include "stream/decode/text.h"

namespace leat::stream {
namespace {

constexpr size_t kMaxFields = 4096;
constexpr size_t kMaxPath = 32;
// A float represents every whole number up to this.
constexpr int64_t kMaxWhole = 1 << 24;

// Whether values are found by names, or else by their place.
bool HasNames(Schema::Format format) {
  using Format = Schema::Format;
  return format != Format::kIdx && format != Format::kText && format != Format::kTensor;
}

bool HasLists(Schema::Format format) {
  using Format = Schema::Format;
  return format == Format::kJson || format == Format::kAvro || format == Format::kProtobuf;
}

Field::Type TypeFrom(const Config& config, Role role) {
  if (role == Role::kIgnore && !config.Has("type")) return Field::Type::kString;
  return fields::FromWord<Field::Type>(config.At("type"), "type");
}

std::optional<Attribute> FromFrom(const Config& config) {
  if (!config.Has("from")) return std::nullopt;
  const Config from = config.At("from");
  if (from.IsMap()) {
    from.Allow({"header"});
    return Attribute{Attribute::Kind::kHeader, from.At("header").String()};
  }
  const std::string name = from.OneOf("from", {"key", "timestamp", "labels"});
  if (name == "labels") return Attribute{Attribute::Kind::kLabel, ""};
  return Attribute{name == "key" ? Attribute::Kind::kKey : Attribute::Kind::kTimestamp, ""};
}

// A label that comes later is a field of a record of its own.
void CheckFrom(const Config& config, const Field& field) {
  const bool late = field.is_late();
  if (!field.from || (field.role == Role::kIgnore && !late)) return;
  const auto fail = [&](const char* why) { config.At("from").Fail("'" + field.name + "' is " + why); };
  using T = Field::Type;
  const bool plain = field.type == T::kNumber || field.type == T::kCategory;
  if (late && field.role != Role::kLabel) fail("no label, and only labels may come later (role: label)");
  if (late && !plain) fail("no number and no category");
  for (const std::string key : {"path", "dtype", "shape"}) {
    if (config.Has(key) && !(late && key == "path"))
      config.At(key).Fail("'" + field.name + "' is not in the record's bytes: it has no " + key);
  }
  if (late) return;
  if ((!plain && field.type != T::kId) || field.list)
    fail("no number, category or id; no other comes from a key, a timestamp or a header");
  if (field.from->kind == Attribute::Kind::kTimestamp && field.type == T::kCategory)
    fail("a category, a timestamp a number");
}

// `length` and `truncate` of a list.
void ReadLength(const Config& config, Schema::Format format, Field* field) {
  field->list = true;
  if (!HasLists(format)) config.At("length").Fail("lists are for the formats json, avro and protobuf");
  field->width = static_cast<uint32_t>(config.Integer("length", 1, 1, Schema::kMaxFeatures));
  field->truncate = config.Bool("truncate", false);
}

// `mean`, `std` and `scale` of a feature.
void ReadScale(const Config& config, Field* field) {
  field->mean = config.Number("mean", 0);
  field->std = config.Number("std", 1);
  if (!(field->std > 0)) config.At("std").Fail("std is " + config.At("std").String() + "; must be above 0");
  field->running = config.Has("scale") && config.At("scale").OneOf("scale", {"running"}) == "running";
}

void ReadNumber(const Config& config, Schema::Format format, Field* field) {
  field->log = config.Bool("log", false);
  ReadScale(config, field);
  field->period = config.Number("period", 0);
  if (config.Has("period") && !(field->period > 0)) config.At("period").Fail("period must be above 0");
  if (field->period > 0 && (field->log || field->running || config.Has("mean") || config.Has("std")))
    config.Fail("field '" + field->name + "' has a period, which goes without log, mean, std and scale");
  field->classes = static_cast<uint32_t>(config.Integer("classes", 0, 2, kMaxWhole));
  if (!config.Has("length")) return;
  if (field->period > 0) config.Fail("field '" + field->name + "' has a period, which a list cannot have");
  if (field->running) {
    config.At("scale").Fail("'" + field->name +
                            "' is a list, whose padding would count as values; scale: running takes no list");
  }
  ReadLength(config, format, field);
}

// The values of a category, of which no two may be spellings of one number or boolean.
std::vector<std::string> CategoryValuesFrom(const Config& list) {
  std::vector<std::string> values = NamesFrom(list, "values");
  std::map<std::string, std::string> spelled;
  for (size_t i = 0; i < values.size(); ++i) {
    CanonicalBuffer buffer;
    const auto spelling = CanonicalSpelling(values[i], '.', &buffer);
    if (!spelling) continue;
    const auto [at, added] = spelled.emplace(*spelling, values[i]);
    if (!added)
      list[i].Fail("'" + at->second + "' and '" + values[i] + "' in values are the same; leave one out");
  }
  return values;
}

void ReadCategory(const Config& config, Field* field) {
  if (config.Has("values")) field->values = CategoryValuesFrom(config.At("values"));
  field->buckets = static_cast<uint32_t>(config.Integer("buckets", 0, 1, Schema::kMaxFeatures));
  if (field->role == Role::kLabel && field->values.empty()) {
    config.Fail("label '" + field->name +
                "' is a category and needs its values, in the order of the classes");
  }
  if (field->values.empty() == (field->buckets == 0))
    config.Fail("category '" + field->name + "' needs either values or buckets");
}

void ReadBytes(const Config& config, Schema::Format format, Field* field) {
  if (format != Schema::Format::kIdx)
    config.Fail("field '" + field->name + "': bytes are for the format idx");
  if (field->role == Role::kLabel)
    config.Fail("label '" + field->name + "' cannot be bytes; a number is one byte");
  ReadScale(config, field);
  field->width = static_cast<uint32_t>(config.Integer("width", 1, 1, Schema::kMaxFeatures));
}

void ReadId(const Config& config, Schema::Format format, Field* field) {
  if (field->role == Role::kLabel)
    config.Fail("label '" + field->name + "' cannot be an id; a number with classes is one");
  (void)config.At("below");
  field->below = static_cast<uint32_t>(config.Integer("below", 0, 1, kMaxWhole));
  if (!config.Has("length")) {
    if (config.Has("pad")) config.At("pad").Fail("pad is for lists; how long is '" + field->name + "'?");
    return;
  }
  ReadLength(config, format, field);
  field->pad = static_cast<uint32_t>(config.Integer("pad", 0, 0, field->below - 1));
}

std::vector<std::string> AlphabetOf(const Config& config) {
  const std::string text = config.String();
  std::vector<std::string> characters;
  std::set<std::string> seen;
  for (size_t at = 0; at < text.size(); at += characters.back().size()) {
    const std::string_view rest = std::string_view(text).substr(at);
    characters.emplace_back(rest.substr(0, CharacterSize(rest)));
    if (!seen.insert(characters.back()).second)
      config.Fail("'" + characters.back() + "' is in the alphabet twice");
  }
  if (characters.empty()) config.Fail("an alphabet has at least one character");
  return characters;
}

void ReadText(const Config& config, Schema::Format format, Field* field) {
  using T = Field::Tokens;
  if (!HasNames(format))
    config.Fail("field '" + field->name + "': a text cannot be in the formats idx, text and tensor");
  if (field->role == Role::kLabel)
    config.Fail("label '" + field->name + "' cannot be a text; a category can");
  field->tokens = fields::FromWord(config, "tokens", T::kWords);
  for (const auto& [key, tokens] :
       {std::pair{"buckets", T::kWords}, {"values", T::kWords}, {"alphabet", T::kCharacters}}) {
    if (config.Has(key) && field->tokens != tokens) {
      config.At(key).Fail(std::string(key) +
                          " is for tokens: " + (tokens == T::kWords ? "words" : "characters"));
    }
  }
  if (config.Has("values")) field->values = NamesFrom(config.At("values"), "values");
  field->buckets = static_cast<uint32_t>(config.Integer("buckets", 0, 2, Schema::kMaxFeatures));
  if (field->tokens == T::kWords && field->values.empty() == (field->buckets == 0))
    config.Fail("the words of '" + field->name + "' need either values or buckets");
  if (field->tokens == T::kCharacters) field->values = AlphabetOf(config.At("alphabet"));
  field->list = config.Has("length");
  if (!field->list && config.Has("truncate"))
    config.At("truncate").Fail("truncate needs a length; how long is '" + field->name + "'?");
  field->width = static_cast<uint32_t>(config.Integer("length", 1, 1, Schema::kMaxFeatures));
  field->truncate = config.Bool("truncate", true);
}

void ReadCharacters(const Config& config, Schema::Format format, uint32_t sequence, Field* field) {
  if (format != Schema::Format::kText)
    config.Fail("field '" + field->name + "': characters are for the format text");
  if (field->role != Role::kFeature)
    config.Fail("characters are features and labels at once; '" + field->name + "' goes without role");
  field->width = static_cast<uint32_t>(config.Integer("sequence", sequence, 1, Schema::kMaxSequence));
  if (field->width == 0)
    config.Fail("field '" + field->name + "' needs a sequence: how many characters are a record");
  if (sequence != 0 && field->width != sequence) {
    config.At("sequence")
        .Fail(StrCat("sequence is ", field->width, ", that of the stream's files ", sequence));
  }
  if (!config.Has("alphabet")) {
    for (int byte = 0; byte < 256; ++byte) field->values.emplace_back(1, static_cast<char>(byte));
    return;
  }
  for (const char byte : config.At("alphabet").String()) {
    std::string value(1, byte);
    if (std::ranges::find(field->values, value) == field->values.end()) {
      field->values.push_back(std::move(value));
    } else if (static_cast<unsigned char>(byte) < 0x80) {  // parts of longer characters may be shared
      config.At("alphabet").Fail("'" + value + "' is in the alphabet twice");
    }
  }
  if (field->values.size() < 2) config.At("alphabet").Fail("an alphabet has at least 2 characters");
}

// `path: customer.address.country`, or a list of keys.
std::vector<std::string> PathFrom(const Config& path) {
  std::vector<std::string> keys;
  if (path.IsList()) {
    for (size_t i = 0; i < path.size(); ++i) keys.push_back(path[i].String());
    if (keys.empty()) path.Fail("a path is one key or more");
  } else {
    const std::string text = path.String();
    for (size_t at = 0; at <= text.size(); at += keys.back().size() + 1) {
      keys.push_back(text.substr(at, std::min(text.find('.', at), text.size()) - at));
      if (keys.back().empty()) {
        path.Fail("the path '" + text +
                  "' has an empty key; a key that has a dot goes into a list, as [a.b, c]");
      }
    }
  }
  if (keys.size() > kMaxPath) path.Fail(StrCat("a path of ", keys.size(), " keys; at most ", kMaxPath));
  return keys;
}

void ReadPath(const Config& config, Schema::Format format, Field* field) {
  field->path = {field->name};
  if (!config.Has("path")) return;
  const Config path = config.At("path");
  // The format of late labels is not the record's.
  if (format == Schema::Format::kCsv && !field->is_late())
    path.Fail("path is for nested records; a field of csv is the column with its name");
  if (!HasNames(format) && !field->is_late())
    path.Fail("path is for nested records; those of idx, text and tensor are bytes");
  field->path = PathFrom(path);
}

void ReadFallback(const Config& config, Schema::Format format, Field* field) {
  if (!config.Has("default")) return;
  const Config value = config.At("default");
  if (!HasNames(format) && !field->is_late())
    value.Fail("default is for values that can be missing; those of idx, text and tensor cannot");
  if (field->role == Role::kIgnore) value.Fail("'" + field->name + "' is ignored and needs no default");
  if (value.IsNull()) value.Fail("default must be a value that the field takes");
  if (field->type == Field::Type::kCategory || field->type == Field::Type::kText) {
    field->fallback = value.String();
  } else if (field->list) {
    if (!value.IsList()) value.Fail("the default of a list is a list, such as []");
    std::vector<double> items;
    for (size_t i = 0; i < value.size(); ++i) items.push_back(value[i].Number());
    field->fallback = std::move(items);
  } else {
    field->fallback = value.Number();
  }
  field->CheckFallback();
}

// Reports keys of another type or role with what they belong to.
void CheckKeys(const Config& config, Schema::Format format, const Field& field) {
  const auto only = [&](const char* key, bool fits, const char* what) {
    if (config.Has(key) && !fits)
      config.At(key).Fail(std::string(key) + " is for " + what + "; '" + field.name + "' is none");
  };
  using T = Field::Type;
  const bool feature = field.role == Role::kFeature, label = field.role == Role::kLabel;
  only("log", field.type == T::kNumber && feature, "features that are numbers");
  only("period", field.type == T::kNumber && feature, "features that are numbers");
  for (const char* key : {"mean", "std", "scale"}) {
    only(key, (field.type == T::kNumber || field.type == T::kBytes) && feature,
         "features that are numbers or bytes");
  }
  only("classes", field.type == T::kNumber && label, "labels that are numbers");
  only("values", field.type == T::kCategory || field.type == T::kText, "categories and texts");
  only("buckets", (field.type == T::kCategory && feature) || field.type == T::kText,
       "features that are categories, and texts");
  for (const char* key : {"below", "pad"}) only(key, field.type == T::kId, "ids");
  const bool list = field.type == T::kId || field.type == T::kText || (field.type == T::kNumber && feature);
  only("length", list, "ids, texts and features that are numbers");
  only("truncate", list && config.Has("length"), "lists and texts with a length");
  only("tokens", field.type == T::kText, "texts");
  only("alphabet", field.type == T::kCharacters || field.type == T::kText, "characters and texts");
  only("sequence", field.type == T::kCharacters, "characters");
  const bool tensor = format == Schema::Format::kTensor;
  only("width", field.type == T::kBytes || (tensor && !field.from), "bytes");
  for (const char* key : {"dtype", "shape"}) {
    if (config.Has(key) && !tensor) config.At(key).Fail(std::string(key) + " is for the format tensor");
  }
}

uint32_t WidthFrom(const Config& config) {
  if (!config.Has("shape")) return static_cast<uint32_t>(config.Integer("width", 1, 1, Schema::kMaxFeatures));
  const Config shape = config.At("shape");
  if (config.Has("width")) shape.Fail("a field has a shape or a width");
  if (!shape.IsList() || shape.size() == 0) shape.Fail("a shape is a list of sizes, such as [28, 28]");
  int64_t width = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t size = shape[i].Integer();
    if (size < 1 || size > Schema::kMaxFeatures / width)
      shape.Fail(StrCat("a shape has 1 to ", Schema::kMaxFeatures, " elements"));
    width *= size;
  }
  return static_cast<uint32_t>(width);
}

// Reads the settings of a field of the format tensor: dtype, shape and width of a field whose type and role
// are known.
void ReadTensor(const Config& config, Field* field) {
  const Config dtype = config.At("dtype");
  field->element = fields::FromWord<Element>(dtype, "dtype");
  field->width = WidthFrom(config);
  if (field->role == Role::kIgnore) return;
  const bool single = field->role != Role::kFeature || field->type == Field::Type::kCategory;
  if (single && field->width > 1) {
    config.Fail(StrCat("'", field->name, "' has ", field->width,
                       " elements; only features of type number or id have more than one"));
  }
  const bool whole = field->element > Element::kF16;  // the first ones are real numbers
  if (field->type == Field::Type::kCategory && !whole)
    dtype.Fail("a category is a whole number; '" + field->name + "' is " + dtype.String());
}

// The settings of the field's type.
void ReadOfType(const Config& config, Schema::Format format, uint32_t sequence, Field* field) {
  switch (field->type) {
    case Field::Type::kNumber:
      return ReadNumber(config, format, field);
    case Field::Type::kCategory:
      return ReadCategory(config, field);
    case Field::Type::kString:
      if (field->role != Role::kIgnore)
        config.Fail("a string can only be ignored; is '" + field->name + "' a category?");
      return;
    case Field::Type::kBytes:
      return ReadBytes(config, format, field);
    case Field::Type::kId:
      return ReadId(config, format, field);
    case Field::Type::kCharacters:
      return ReadCharacters(config, format, sequence, field);
    case Field::Type::kText:
      return ReadText(config, format, field);
  }
}

Field FieldFrom(const std::string& name, const Config& config, Schema::Format format, uint32_t sequence) {
  Field field;
  field.name = name;
  field.where = config.where();
  if (!config.IsMap()) config.Fail("field '" + name + "' must be a map, as {type: number}");
  config.Allow({"type",   "role",    "log",   "mean",    "std",    "scale",    "period",   "classes",
                "values", "buckets", "width", "below",   "length", "pad",      "alphabet", "sequence",
                "dtype",  "shape",   "path",  "default", "tokens", "truncate", "from"});
  field.role = fields::FromWord(config, "role", Role::kFeature);
  field.type = TypeFrom(config, field.role);
  field.from = FromFrom(config);
  CheckKeys(config, format, field);
  ReadOfType(config, format, sequence, &field);
  CheckFrom(config, field);
  if (field.role == Role::kTruth && field.type != Field::Type::kNumber)
    config.Fail("truth '" + name + "' must be a number");
  if (format == Schema::Format::kTensor && !field.from) ReadTensor(config, &field);
  ReadPath(config, format, &field);
  ReadFallback(config, format, &field);
  return field;
}

// Losses and scores are averaged over all labels, so these must be of one kind.
void CheckLabels(const Schema& schema) {
  const Field *label = nullptr, *truth = nullptr;
  for (const Field& field : schema.fields) {
    const auto fail = [&](const std::string& why) {
      throw std::invalid_argument(field.where + ": '" + field.name + "' is " + why);
    };
    if (field.role == Role::kTruth) {
      if (truth) fail("a second truth after '" + truth->name + "'");
      truth = &field;
    }
    if (field.role == Role::kLabel) {
      if (label && label->label_classes() != field.label_classes()) {
        const auto classes = [](const Field& f) {
          return f.label_classes() == 0 ? "any number" : StrCat(f.label_classes(), " classes");
        };
        fail("a label of " + classes(field) + ", '" + label->name + "' one of " + classes(*label));
      }
      label = &field;
    }
  }
  if (truth && schema.labels() > 1) {
    throw std::invalid_argument(
        StrCat(truth->where, ": a truth goes with one label; there are ", schema.labels()));
  }
}

// Every field that is read has a value of its own, which is no object. `late`: those of the labels' records.
void CheckPaths(const Schema& schema, bool late) {
  std::map<std::vector<std::string>, const Field*> paths;
  for (const Field& field : schema.fields) {
    if (field.role == Role::kIgnore || (late ? !field.is_late() : field.from.has_value())) continue;
    const auto [at, added] = paths.emplace(field.path, &field);
    if (added) continue;
    throw std::invalid_argument(field.where + ": '" + field.name + "' has the path " + field.path_text() +
                                ", as '" + at->second->name + "' has");
  }
  // In their order, the paths through a value follow it.
  for (auto next = paths.begin(), at = next; next != paths.end(); at = next) {
    if (++next == paths.end() || next->first.size() <= at->first.size()) continue;
    if (!std::equal(at->first.begin(), at->first.end(), next->first.begin())) continue;
    const Field& field = *next->second;
    throw std::invalid_argument(field.where + ": the path " + field.path_text() + " of '" + field.name +
                                "' leads through the value of '" + at->second->name + "'");
  }
}

void CheckSchema(const Schema& schema, const Config& config) {
  if (schema.format == Schema::Format::kText &&
      (schema.fields.size() != 1 || schema.fields[0].type != Field::Type::kCharacters)) {
    config.At("fields").Fail("the format text has one field, of type characters");
  }
  CheckLabels(schema);
  CheckPaths(schema, false);
  CheckPaths(schema, true);
  uint64_t features = 0;
  for (const Field& field : schema.fields) features += field.features();
  if (features == 0) config.Fail("the schema has no features");
  if (features > Schema::kMaxFeatures)
    config.Fail(StrCat("the schema has ", features, " features; at most ", Schema::kMaxFeatures));
}

uint32_t IdFrom(const Config& map, const std::string& key) {
  const auto id = ToNumber<uint32_t>(key);
  if (!id) map.At(key).Fail("'" + key + "' is not the id of a schema, a whole number of 32 bits");
  return *id;
}

std::string UrlFrom(const Config& config) {
  std::string url = config.String();
  while (url.ends_with('/')) url.pop_back();
  const size_t scheme = url.find("://") + 3;
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    config.Fail("the registry is '" + url + "'; a URL begins with http:// or https://");
  if (url.substr(scheme, url.find('/', scheme) - scheme).find('@') != url.npos) {
    config.Fail(
        "the registry's URL has a user, and copies of the job would have it; name where it is: "
        "basic.auth.user.info: {env: NAME} or {file: PATH}");
  }
  return url;
}

RegistryOptions RegistryFrom(const Config& config) {
  config.Allow({"url", "basic.auth.user.info", "ssl.ca.location", "ssl.certificate.location",
                "ssl.key.location", "ssl.key.password", "timeout_s"});
  RegistryOptions options{.url = UrlFrom(config.At("url"))};
  const auto secret = [&config](const char* key) {
    return config.Has(key) ? std::optional(ReadSecret(config.At(key), key)) : std::nullopt;
  };
  options.user = secret("basic.auth.user.info");
  options.ca = config.String("ssl.ca.location", "");
  options.certificate = config.String("ssl.certificate.location", "");
  options.key = config.String("ssl.key.location", "");
  options.key_password = secret("ssl.key.password");
  options.timeout = FromSeconds(config.Number("timeout_s", Seconds(options.timeout), 0.1, 600));
  return options;
}

}  // namespace

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

Schema Schema::FromConfig(const Config& config, uint32_t sequence) {
  if (!config.IsMap()) config.Fail("schema must be a map with format and fields");
  std::vector<std::string> known = {"format", "avro", "protobuf", "fields", "max_record_bytes"};
  known.insert(known.end(), kCsvSettings.begin(), kCsvSettings.end());
  config.Allow(known);
  Schema schema;
  schema.max_record_bytes =
      static_cast<uint64_t>(config.Integer("max_record_bytes", kDefaultRecordBytes, 1, int64_t{1} << 30));
  schema.format = fields::FromWord<Format>(config.At("format"), "format");
  const Config fields = config.At("fields");
  if (!fields.IsMap()) fields.Fail("fields must be a map from name to {type: ...}");
  const std::vector<std::string> names = fields.Keys();
  if (names.size() > kMaxFields) fields.Fail(StrCat(names.size(), " fields; at most ", kMaxFields));
  for (const std::string& name : names)
    schema.fields.push_back(FieldFrom(name, fields.At(name), schema.format, sequence));
  CheckSchema(schema, config);
  if (schema.format == Format::kAvro) schema.avro = AvroSettings::FromConfig(config.At("avro"));
  if (schema.format == Format::kProtobuf)
    schema.protobuf = ProtobufSettings::FromConfig(config.At("protobuf"));
  for (const auto& [key, format] : {std::pair{"avro", Format::kAvro}, {"protobuf", Format::kProtobuf}}) {
    if (config.Has(key) && schema.format != format)
      config.At(key).Fail(std::string(key) + " is for the format " + key);
  }
  ReadCsvSettings(config, &schema);
  if (config.Has("columns")) schema.UseColumns(NamesFrom(config.At("columns"), "columns"));
  return schema;
}

AvroSettings AvroSettings::FromConfig(const Config& config) {
  if (!config.IsMap()) config.Fail("avro must be a map, as {schema: FILE} or {registry: FOLDER or URL}");
  config.Allow({"schema", "registry"});
  AvroSettings avro{.where = config.where()};
  if (config.Has("schema") == config.Has("registry")) {
    config.Fail(
        "avro has either a schema, of records without framing, or a registry, of records that begin with a "
        "schema's id");
  }
  if (config.Has("schema")) {
    avro.file = config.At("schema").String();
    if (avro.file.empty()) config.At("schema").Fail("schema is the path of a file");
    return avro;
  }
  const Config registry = config.At("registry");
  if (!registry.IsMap()) {
    const std::string text = registry.String();
    if (text.empty()) registry.Fail("registry is the path of a folder, a URL, or a map from ids to files");
    if (text.find("://") != text.npos) {
      avro.registry = RegistryOptions{.url = UrlFrom(registry)};
    } else {
      avro.folder = text;
    }
  } else if (registry.Has("url")) {
    avro.registry = RegistryFrom(registry);
  } else {
    for (const std::string& key : registry.Keys())
      avro.files[IdFrom(registry, key)] = registry.At(key).String();
    if (avro.files.empty()) registry.Fail("registry has no schemas");
  }
  return avro;
}

ProtobufSettings ProtobufSettings::FromConfig(const Config& config) {
  if (!config.IsMap()) config.Fail("protobuf must be a map with descriptor and message");
  config.Allow({"descriptor", "message", "framing"});
  ProtobufSettings settings{.where = config.where(),
                            .file = config.At("descriptor").String(),
                            .message = config.At("message").String()};
  settings.framed =
      config.Has("framing") && config.At("framing").OneOf("framing", {"none", "registry"}) == "registry";
  return settings;
}

}  // namespace leat::stream

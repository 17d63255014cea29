// The schema of events: fields, their types, and their conversion to numbers.
//
// docs/jobs.md#schema has the settings of the section `schema:` of a job. Their meaning for the decoders:
//
// A category compares numbers and booleans by value, in all formats: 1, 1.0 and 1e0 are one, and so are true
// and True (CanonicalSpelling). All other texts are compared by their bytes.
//
// text: `tokens` are words (default), characters or bytes; see Tokenizer for their ids. Words are hashed into
// `buckets`, or found in the list `values`; characters are those of an `alphabet`. truncate: whether a text
// (default: true) or a list (default: false) with more than `length` entries is cut, or a dead letter.
//
// path: of formats with nested records; without it, a field's only key is its name. No two fields may have
// the same path, and no path may lead through the value of another field. default: a value as the record
// would have it, before log, mean and std; of a list a list. csv: for an empty field, and for one of the
// texts `missing`; without this setting, numbers take IsMissingNumber. Not for idx, text and tensor.
//
// json: an object with keys in any order; unknown keys are ignored. A number may also be true (1) or false
// (0). A category may also be a number, true or false. csv: the fields are the
// columns in order. With `columns: [a, b, ...]`, or Schema::UseColumns, they are found by name and other
// columns are ignored. Fields may be in quotes; blanks around a field are ignored. Records are UTF-8. idx:
// the fields one after the other, `bytes` of its width, any other type of one byte. text: `sequence` + 1
// characters (bytes). The only field turns them into ids, each the index in the alphabet (without an alphabet
// the byte itself). Features are all but the last, labels all but the first: at each position the next
// character.
//
// avro: fields are found by name in the schema of the program that wrote the record (AvroSettings). A
// number is an int, long, float, double, boolean or decimal; other logical types are numbers in their unit. A
// category is a string or enum, or an int, long or boolean. A list is an array.
//
// protobuf: fields are found by name in a message of a descriptor (ProtobufSettings). A number is
// of any numeric type, a bool or the number of an enum. A category is a string, bytes or the name in an enum,
// or a whole number or bool. A list is a repeated number. A scalar without presence
// that is absent is 0 or empty.
//
// tensor: little-endian arrays one after the other, of each field's `dtype` (f32, f64, bf16, f16, i8 to i64,
// u8 to u64) and `width` or `shape`: 1 by default.
//
// scale: running: of features that are numbers or bytes. The model normalises them with statistics that it
// learns (compute/nn/running_scale.h); a row has them as they are after log, mean and std.
//
// Several labels are in a row in the order of their fields; all must have the same number of classes.
//
// A record that does not match (missing field, wrong type, not finite, out of range) becomes a dead letter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/config/config.h"
#include "base/fields/fields.h"
#include "base/status.h"
#include "compute/tensor/tensor.h"
#include "stream/csv/csv.h"
#include "stream/source.h"

namespace leat::stream {

// Secrets of a job's settings. A job names where they are; it never has them, because copies of it exist.
struct Secret {
  std::string setting;         // setting whose value it is
  std::string variable, file;  // variable of the environment, or a path: one of them
};

// From {env: NAME} or {file: PATH}. Throws std::invalid_argument with the line.
Secret ReadSecret(const Config& config, const std::string& setting);
// The value, from this process's environment or files. kInvalidArgument with the setting and the place.
Result<std::string> ReadSecretValue(const Secret& secret);

// A schema registry, reached by HTTP.
struct RegistryOptions {
  std::string url;  // without a slash at its end
  std::optional<Secret> user;
  std::string ca, certificate, key;  // paths
  std::optional<Secret> key_password;
  Duration timeout = std::chrono::seconds(10);  // for which an unknown id is asked for again
};

// The texts of schemas by their ids; that of records without framing has the id 0.
using AvroTexts = std::map<uint32_t, std::string>;

// The `avro:` of a job's schema (docs/jobs.md#avro): where the schemas of writers are. Records are framed
// (row_writer.h), unless one file has the schema of all of them.
struct AvroSettings {
  std::string where;  // "job.yaml:14"
  // Source of the schemas: one of these.
  std::string file;
  std::string folder;
  std::map<uint32_t, std::string> files;
  std::optional<RegistryOptions> registry;
  // Contents of the files, if there are some.
  AvroTexts texts;

  bool framed() const { return file.empty(); }

  // Throws std::invalid_argument with the line and the values.
  static AvroSettings FromConfig(const Config& config);
};

// The settings of records that are Protobuf messages:
//
//   schema:
//     format: protobuf
//     protobuf: {descriptor: payments.pb, message: shop.Payment}   # framing: none | registry
//
// `descriptor` is a FileDescriptorSet, as `protoc --include_imports --descriptor_set_out` writes it. A job
// keeps the part that it needs in its `resolved:` section.
struct ProtobufSettings {
  std::string where;    // "job.yaml:5"
  std::string file;     // the descriptor, as in the job file
  std::string message;  // full name
  bool framed = false;  // records have the framing of a schema registry, and then the message's indexes
  // A FileDescriptorSet with the messages and fields that the schema reads; set by UseDescriptor.
  std::string descriptor;
  static ProtobufSettings FromConfig(const Config& config);
};

enum class Role : uint8_t { kFeature, kLabel, kTruth, kIgnore };
LEAT_ENUM(Role, (kFeature, "feature"), (kLabel, "label"), (kTruth, "truth"), (kIgnore, "ignore"));

// Keys as messages show them: `customer.address.country`. A key that has a dot is in double quotes.
std::string PathText(std::span<const std::string> keys);

// An element of a field of the format tensor.
enum class Element : uint8_t { kF32, kF64, kBf16, kF16, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64 };
LEAT_ENUM(Element, (kF32, "f32"), (kF64, "f64"), (kBf16, "bf16"), (kF16, "f16"), (kI8, "i8"), (kI16, "i16"),
          (kI32, "i32"), (kI64, "i64"), (kU8, "u8"), (kU16, "u16"), (kU32, "u32"), (kU64, "u64"));

struct Field {
  std::string name;
  std::string where;              // "job.yaml:14"
  std::vector<std::string> path;  // the keys that lead to the value from the record's root
  Role role = Role::kFeature;
  enum class Type : uint8_t { kNumber, kCategory, kString, kBytes, kId, kCharacters, kText };
  Type type = Type::kNumber;
  bool log = false;          // x → log(1 + x), x ≥ 0, before mean and std
  double mean = 0, std = 1;  // (x - mean) / std
  bool running = false;      // the model normalises it; decoded rows are the same
  double period = 0;         // > 0: x → sin, cos of 2πx/period
  // Category: one feature per value. As label: the class is the index in the list; any other value makes a
  // dead letter. Characters: the alphabet, one byte each. Text: the words, or the characters.
  std::vector<std::string> values;
  uint32_t buckets = 0;  // category: number of features it is hashed into; text: of ids
  uint32_t classes = 0;  // numeric label: > 0: a whole number below this
  // Bytes: the number of u8 in the field (idx images), each a feature. Characters: the sequence. Id, number,
  // text: the length of the list. Format tensor: the number of elements.
  uint32_t width = 1;
  uint32_t below = 0;               // id: 0 ≤ x < below
  uint32_t pad = 0;                 // id: padding value of a list
  bool list = false;                // id, number: a list; text: ids in order, instead of their counts
  Element element = Element::kF32;  // format tensor
  // Set: it is not in the record's bytes. A key or a header is text; a timestamp is a number in seconds. A
  // label is a record with fields, of which this is one.
  std::optional<Attribute> from;
  enum class Tokens : uint8_t { kBytes, kCharacters, kWords } tokens = Tokens::kWords;
  bool truncate = false;  // a list that is longer is cut
  using Value = std::variant<double, std::string, std::vector<double>>;
  std::optional<Value> fallback;  // the value of a record that lacks the field or has null
  // It comes later, in a record of its own.
  bool is_late() const { return from && from->kind == Attribute::Kind::kLabel; }
  // False if the path is the name.
  bool has_own_path() const { return path.size() != 1 || path[0] != name; }
  // The path as messages show it; a path that is the name alone as it is.
  std::string path_text() const { return has_own_path() ? PathText(path) : name; }
  // Throws std::invalid_argument if the fallback does not fit the field.
  void CheckFallback() const;
  // The number of features of the field; 0 unless role is kFeature.
  uint32_t features() const;
  // Text: its ids are below this; 0 is padding.
  uint32_t token_ids() const;
  // The number of labels of the field.
  uint32_t labels() const;
  // The number of classes of its label; 0 for any number.
  uint32_t label_classes() const;
  // > 0: its features are whole numbers from 0 to below this.
  uint32_t ids() const;
};

struct Schema {
  static constexpr uint32_t kMaxFeatures = 1 << 20;
  static constexpr uint32_t kMaxSequence = 1 << 16;
  static constexpr uint64_t kDefaultRecordBytes = 4 << 20;

  enum class Format : uint8_t { kJson, kCsv, kIdx, kText, kAvro, kProtobuf, kTensor } format = Format::kJson;
  // csv: between fields. Not set: a comma, or detected in the files.
  char delimiter = ',';
  bool delimiter_set = false;
  char quote = '"', escape = '\0', decimal = '.';   // csv; quote and escape: 0 for none
  std::optional<std::vector<std::string>> missing;  // csv: texts that count as an empty field
  CsvDialect dialect() const { return {delimiter, quote, escape}; }
  std::vector<std::string> columns;  // csv: column names; empty: the fields in order
  AvroSettings avro;                 // settings of the format avro
  ProtobufSettings protobuf;         // settings of the format protobuf
  // The records of labels that come later, in another topic: they contain the fields `from: labels`.
  struct LabelRecords {
    Format format = Format::kJson;  // or kCsv
    char delimiter = ',';
    std::vector<std::string> columns;  // csv: column names; empty: the fields in order
    bool negative = false;             // events without a label are of class 0, instead of being left out
    friend bool operator==(const LabelRecords&, const LabelRecords&) = default;
  };
  std::optional<LabelRecords> label_records;
  std::vector<Field> fields;
  uint64_t max_record_bytes = kDefaultRecordBytes;
  uint32_t features() const;  // width of a decoded row
  uint32_t labels() const;    // labels of a decoded row; 1, always 0, if no field is a label
  // Positions in a row of the features with a running scale, ascending.
  std::vector<uint32_t> running_features() const;
  bool has_label() const;
  bool has_truth() const;
  bool has_late_labels() const { return std::ranges::any_of(fields, &Field::is_late); }
  // The fields that are late, as the schema of their own records. Throws std::invalid_argument if these are
  // not known, or do not have the fields.
  Schema LateLabels() const;
  // Without the fields that are late; or as if they were in the record, in fields of their names, as
  // evaluation files have them.
  Schema WithoutLateLabels() const;
  Schema WithLabelsInRecord() const;
  // The attributes that fields come from, each once.
  std::vector<Attribute> attributes() const;
  // The number of classes of a label; 0 if there is no label or it is any number.
  uint32_t classes() const;
  // Throws std::invalid_argument with the location and the values, and suggests the most similar known word.
  // `sequence`: of a text record, if the stream defines it (0: the field does).
  static Schema FromConfig(const Config& config, uint32_t sequence = 0);
  // Sets `columns` from a file's header; throws if a field is not among them, or twice. `file`: for messages.
  void UseColumns(std::vector<std::string> names, const std::string& file = {});
  // Changes whenever a record could decode to other numbers; part of the cut hash.
  uint64_t hash() const;
};

// In the order in which messages list them.
LEAT_ENUM(Field::Type, (kNumber, "number"), (kCategory, "category"), (kString, "string"), (kBytes, "bytes"),
          (kId, "id"), (kCharacters, "characters"), (kText, "text"));
LEAT_ENUM(Field::Tokens, (kWords, "words"), (kCharacters, "characters"), (kBytes, "bytes"));
LEAT_ENUM(Schema::Format, (kJson, "json"), (kCsv, "csv"), (kAvro, "avro"), (kProtobuf, "protobuf"),
          (kTensor, "tensor"), (kIdx, "idx"), (kText, "text"));

// The names in a list of one or more, each once. `what` is the list's in messages. Throws
// std::invalid_argument.
std::vector<std::string> NamesFrom(const Config& list, std::string_view what);

// Sets what the files of `schema->avro` contain, after a check that the job's fields fit. Throws
// std::invalid_argument with the place if they do not: of a folder if none of its schemas fits. Returns why
// others of a folder do not fit, one line each; these are left out.
std::vector<std::string> UseAvro(const AvroTexts& texts, Schema* schema);

// Takes what the schema needs from a FileDescriptorSet. Throws std::invalid_argument with the place if it is
// none, or if it lacks the message or a field, or if a field has another type.
void UseDescriptor(std::string_view descriptor, Schema* schema);

}  // namespace leat::stream

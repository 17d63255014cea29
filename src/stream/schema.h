// The schema of events: fields, their types, and their conversion to numbers.
//
// The `schema:` section of a job:
//
//   schema:
//     format: json                     # json | csv | avro | protobuf | tensor | idx | text
//     delimiter: ";"                   # csv: one character or tab
//     quote: "'"                       # csv: one character or none; default: a double quote
//     escape: "\\"                     # csv: takes the meaning from the next character; default: none
//     decimal: ","                     # csv: in numbers; default: a dot
//     missing: [NA, "?"]               # csv: texts that count as an empty field
//     max_record_bytes: 4194304        # a larger record is a dead letter
//     fields:
//       amount:  {type: number, log: true, mean: 3.2, std: 1.1}
//       price:   {type: number, scale: running}        # normalised with what the stream has had so far
//       hour:    {type: number, period: 24}            # two features: sin and cos
//       country: {type: category, values: [ES, MX, US]} # one feature each, all zero for any other value
//       device:  {type: category, buckets: 16}         # hashed
//       fraud:   {type: number, role: label, classes: 2}  # a whole number from 0 to 1
//       p_fraud: {type: number, role: truth}           # known probability of simulated data: never a feature
//       item:    {type: id, below: 1000}               # a whole number from 0 to 999, unchanged
//       bought:  {type: id, below: 1000, length: 20}   # a list of at most 20, padded with `pad` (0)
//       text:    {type: characters, alphabet: "\nabc"} # format text: see below
//       scores:  {type: number, length: 8}             # json, avro, protobuf: a list of at most 8
//       title:   {type: text, buckets: 5000, length: 12}  # ids of 12 words, padded with 0: for an embedding
//       remark:  {type: text, buckets: 500}            # without a length: how often each of 499 ids occurs
//       note:    {role: ignore}
//       card:    {type: category, buckets: 64, from: key}      # of Kafka's record, not its value
//       day:     {type: number, from: timestamp, period: 86400} # seconds since 1970
//       shop:    {type: id, below: 500, from: {header: shop}}
//       chosen:  {type: number, role: label, from: labels}     # comes later: see LabelRecords
//       home:    {type: category, buckets: 64, path: customer.address.country}   # keys from the root
//       age:     {type: number, path: [customer.v2, age]}  # a list, where a key itself has a dot
//       visits:  {type: number, default: 0}  # the value of a record that lacks it or has null
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
// avro: fields are found by name in the schema of the program that wrote the record (avro/avro_settings.h). A
// number is an int, long, float, double, boolean or decimal; other logical types are numbers in their unit. A
// category is a string or enum, or an int, long or boolean. A list is an array.
//
// protobuf: fields are found by name in a message of a descriptor (protobuf/protobuf_settings.h). A number is
// of any numeric type, a bool or the number of an enum. A category is a string, bytes or the name in an enum,
// or a whole number or bool. A list is a repeated number. A scalar without presence
// that is absent is 0 or empty.
//
// tensor: little-endian arrays one after the other, of each field's `dtype` (f32, f64, bf16, f16, i8 to i64,
// u8 to u64) and `width` or `shape`: 1 by default.
//
// scale: running: of features that are numbers or bytes. The model normalises them with statistics that it
// learns (compute/nn/model.h); a row has them as they are after log, mean and std.
//
// Several labels are in a row in the order of their fields; all must have the same number of classes.
//
// A record that does not match (missing field, wrong type, not finite, out of range) becomes a dead letter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/config/config.h"
#include "base/fields/fields.h"
#include "compute/tensor/tensor.h"
#include "stream/avro/avro_settings.h"
#include "stream/csv/split.h"
#include "stream/protobuf/protobuf_settings.h"
#include "stream/source.h"

namespace leat::stream {

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
  enum class Type : uint8_t {
    kNumber,
    kCategory,
    kString,
    kBytes,
    kId,
    kCharacters,
    kText
  } type = Type::kNumber;
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
  std::string path_text() const;
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
  bool has_late_labels() const;
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

}  // namespace leat::stream

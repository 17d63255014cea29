// What an event means: fields, their types, and how each becomes numbers.
//
// The `schema:` section of a job:
//
//   schema:
//     format: json                     # json | csv | idx | text
//     delimiter: ";"                   # csv: one character or tab
//     fields:
//       amount:  {type: number, log: true, mean: 3.2, std: 1.1}
//       hour:    {type: number, period: 24}            # two features: sin and cos
//       country: {type: category, values: [ES, MX, US]} # one feature each, all zero for any other value
//       device:  {type: category, buckets: 16}         # hashed
//       fraud:   {type: number, role: label, classes: 2}  # a whole number from 0 to 1
//       p_fraud: {type: number, role: truth}           # known probability of simulated data: never a feature
//       item:    {type: id, below: 1000}               # a whole number from 0 to 999, as it is
//       bought:  {type: id, below: 1000, length: 20}   # json: a list of at most 20, padded with `pad` (0)
//       text:    {type: characters, alphabet: "\nabc"} # format text: see below
//       note:    {role: ignore}
//
// json: an object; keys in any order, others than the fields' are ignored. A number may also be true (1) or
// false (0); a category may also be a number or true or false, compared as it is written. csv: the fields are
// the columns in order; with `columns: [a, b, ...]`, or Schema::UseColumns, they are found by name and the
// other columns are ignored. Fields may be in double quotes; blanks around a field do not count. idx: the
// fields one after the other, `bytes` of its width, any other type of one byte. text: `sequence` + 1
// characters, bytes; the one field makes ids of them, each its place in the alphabet (without an alphabet the
// byte itself). Features are all but the last, labels all but the first: at each place what comes next.
//
// Several labels stand in a row in the order of their fields; classes have to be as many for each.
//
// A record that does not fit (missing field, wrong type, not finite, out of range) is a dead letter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "stream/source.h"
#include "tensor/tensor.h"

namespace leat::stream {

enum class Role : uint8_t { kFeature, kLabel, kTruth, kIgnore };

struct Field {
  std::string name;
  std::string where;  // "job.yaml:14"
  Role role = Role::kFeature;
  enum class Type : uint8_t { kNumber, kCategory, kString, kBytes, kId, kCharacters } type = Type::kNumber;
  bool log = false;          // x → log(1 + x), x ≥ 0, before mean and std
  double mean = 0, std = 1;  // (x - mean) / std
  double period = 0;         // > 0: x → sin, cos of 2πx/period
  // Category: one feature a value. As label: the class is the place in the list, any other value a dead
  // letter. Characters: the alphabet, a byte each.
  std::vector<std::string> values;
  uint32_t buckets = 0;  // category: hashed into so many features
  uint32_t classes = 0;  // label that is a number: > 0: a whole number below it
  // Bytes: how many u8 make up the field (idx images), each a feature. Characters: the sequence. Id: the
  // length of the list.
  uint32_t width = 1;
  uint32_t below = 0;  // id: 0 ≤ x < below
  uint32_t pad = 0;    // id: what a list is filled up with
  bool list = false;   // id: a list
  // Features that the field turns into; 0 unless role is kFeature.
  uint32_t features() const;
  // Labels that the field turns into.
  uint32_t labels() const;
  // Classes that its label can take; 0 when it is any number.
  uint32_t label_classes() const;
  // > 0: its features are whole numbers from 0 to below this.
  uint32_t ids() const;
};

struct Schema {
  static constexpr uint32_t kMaxFeatures = 1 << 20;
  static constexpr uint32_t kMaxSequence = 1 << 16;

  enum class Format : uint8_t { kJson, kCsv, kIdx, kText } format = Format::kJson;
  // csv: between fields. Not set: a comma, or what is found in the files.
  char delimiter = ',';
  bool delimiter_set = false;
  std::vector<std::string> columns;  // csv: names of the columns; empty: the fields in order
  std::vector<Field> fields;
  uint32_t features() const;  // width of a decoded row
  uint32_t labels() const;    // of a decoded row; 1, always 0, when no field is a label
  bool has_label() const;
  bool has_truth() const;
  // Classes that a label can take; 0 when there is no label or it is any number.
  uint32_t classes() const;
  // Throws std::invalid_argument with place and values; names the nearest known word. `sequence`: of a record
  // of text, where the stream says it (0: the field does).
  static Schema FromConfig(const Config& config, uint32_t sequence = 0);
  // Sets `columns`, as a file's header says; throws when a field is not among them.
  void UseColumns(std::vector<std::string> names);
  // Changes whenever a record could decode to other numbers: part of the cut hash.
  uint64_t hash() const;
};

// Why a record does not fit the schema.
struct Misfit {
  std::string reason;  // "amount: 'abc' is not a number"; empty: it fits
  // Where text was found instead of a number: the field and the text, its first bytes.
  std::string field, text;

  Misfit() = default;
  Misfit(std::string why) : reason(std::move(why)) {}  // NOLINT: most have nothing but a reason
  Misfit(const char* why) : reason(why) {}             // NOLINT
  bool empty() const { return reason.empty(); }
};

// Rows decoded from records, ready to be batched. Row i of each column belongs to the i-th good record.
struct DecodedRows {
  size_t rows = 0;
  std::vector<float> features;  // rows × schema.features(), row-major
  std::vector<float> labels;    // rows × schema.labels(): class index, or the number itself
  std::vector<float> truth;     // rows, or empty when the schema has none
  // Offset behind `first_offset` of each good record: with no dead letters 0, 1, 2, …
  std::vector<uint32_t> index;
  struct DeadLetter {
    uint64_t offset = 0;
    std::string reason;       // Misfit's
    std::string record;       // its first bytes
    std::string field, text;  // Misfit's
  };
  std::vector<DeadLetter> dead;
  void clear();
};

// Not thread-safe. Never throws on a record's content.
class Decoder {
 public:
  // Bytes of a dead letter's record that are kept.
  static constexpr size_t kKeptBytes = 1024;

  virtual ~Decoder() = default;
  // Appends every record of `batch` to `out`, as a row or as a dead letter.
  virtual void Decode(const RecordBatch& batch, DecodedRows* out) = 0;
};

// Throws std::invalid_argument when the schema cannot be decoded so (a CSV field that is not among the
// columns).
std::unique_ptr<Decoder> MakeDecoder(const Schema& schema);

}  // namespace leat::stream

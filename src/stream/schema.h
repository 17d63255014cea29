// What an event means: fields, their types, and how each becomes numbers (row I5).
//
// The `schema:` section of a job:
//
//   schema:
//     format: json                     # json | csv | idx
//     fields:
//       amount:  {type: number, log: true, mean: 3.2, std: 1.1}
//       hour:    {type: number, period: 24}            # two features: sin and cos
//       country: {type: category, values: [ES, MX, US]} # one feature each, all zero for any other value
//       device:  {type: category, buckets: 16}         # hashed
//       fraud:   {type: number, role: label, classes: 2}  # a whole number from 0 to 1
//       p_fraud: {type: number, role: truth}           # known probability of simulated data: never a feature
//       note:    {role: ignore}
//
// json: an object; keys in any order, others than the fields' are ignored. A number may also be true (1) or
// false (0); a category may also be a number or true or false, compared as it is written. csv: the fields are
// the columns in order; with `columns: [a, b, ...]`, or Schema::UseColumns, they are found by name and the
// other columns are ignored. Fields may be in double quotes; blanks around a field do not count. idx: the
// fields one after the other, `bytes` of its width, any other type of one byte.
//
// A record that does not fit (missing field, wrong type, not finite, out of range) is a dead letter (I8).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
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
  enum class Type : uint8_t { kNumber, kCategory, kString, kBytes } type = Type::kNumber;
  bool log = false;          // x → log(1 + x), x ≥ 0, before mean and std
  double mean = 0, std = 1;  // (x - mean) / std
  double period = 0;         // > 0: x → sin, cos of 2πx/period
  // Category: one feature a value. As label: the class is the place in the list, any other value a dead
  // letter.
  std::vector<std::string> values;
  uint32_t buckets = 0;  // category: hashed into so many features
  uint32_t classes = 0;  // label that is a number: > 0: a whole number below it
  uint32_t width = 1;    // bytes: how many u8 make up the field (idx images), each a feature
  // Features that the field turns into; 0 unless role is kFeature.
  uint32_t features() const;
};

struct Schema {
  static constexpr uint32_t kMaxFeatures = 1 << 20;

  enum class Format : uint8_t { kJson, kCsv, kIdx } format = Format::kJson;
  std::vector<std::string> columns;  // csv: names of the columns; empty: the fields in order
  std::vector<Field> fields;
  uint32_t features() const;  // width of a decoded row
  // The field with that role, or null.
  const Field* label() const;
  const Field* truth() const;
  bool has_truth() const { return truth() != nullptr; }
  // Classes that the label can take; 0 when there is no label or it is any number.
  uint32_t classes() const;
  // Throws std::invalid_argument with place and values; names the nearest known word.
  static Schema FromConfig(const Config& config);
  // Sets `columns`, as a file's header says; throws when a field is not among them.
  void UseColumns(std::vector<std::string> names);
  // Changes whenever a record could decode to other numbers: part of the cut hash.
  uint64_t hash() const;
};

// Rows decoded from records, ready to be batched. Row i of each column belongs to the i-th good record.
struct DecodedRows {
  size_t rows = 0;
  std::vector<float> features;  // rows × schema.features(), row-major
  std::vector<float> labels;    // rows: class index, or the number itself; zeros when the schema has no label
  std::vector<float> truth;     // rows, or empty when the schema has none
  // Offset behind `first_offset` of each good record: with no dead letters 0, 1, 2, …
  std::vector<uint32_t> index;
  struct DeadLetter {
    uint64_t offset = 0;
    std::string reason;  // "amount: 'abc' is not a number"
    std::string record;  // its first bytes
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

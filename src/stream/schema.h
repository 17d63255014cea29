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
//       fraud:   {type: number, role: label}
//       p_fraud: {type: number, role: truth}           # known probability of simulated data: never a feature
//       note:    {type: string, role: ignore}
//
// A record that does not fit (missing field, wrong type, not finite, out of range, too long) is a dead letter
// (I8).
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
  std::vector<std::string>
      values;            // category: one feature a value; label: the class is the place in the list
  uint32_t buckets = 0;  // category: hashed into so many features
  uint32_t width = 1;    // bytes: how many u8 make up the field (idx images), each a feature
  // Features that the field turns into; 0 unless role is kFeature.
  uint32_t features() const;
};

struct Schema {
  enum class Format : uint8_t { kJson, kCsv, kIdx } format = Format::kJson;
  bool header = false;  // csv: the first line names the columns
  std::vector<Field> fields;
  uint32_t features() const;  // width of a decoded row
  bool has_truth() const;
  static Schema FromConfig(const Config& config);
  // Changes whenever a record could decode to other numbers: part of the cut hash.
  uint64_t hash() const;
};

// Rows decoded from records, ready to be batched. Row i of each column belongs to the i-th good record.
struct DecodedRows {
  size_t rows = 0;
  std::vector<float> features;  // rows × schema.features(), row-major
  std::vector<float> labels;    // rows: class index, or the number itself
  std::vector<float> truth;     // rows, or empty when the schema has none
  // Offset behind `first_offset` of each good record: with no dead letters 0, 1, 2, …
  std::vector<uint32_t> index;
  struct DeadLetter {
    uint64_t offset = 0;
    std::string reason;  // "amount: 'abc' is not a number"
  };
  std::vector<DeadLetter> dead;
  void clear();
};

// Not thread-safe. Never throws on a record's content.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Appends every record of `batch` to `out`, as a row or as a dead letter.
  virtual void Decode(const RecordBatch& batch, DecodedRows* out) = 0;
};

std::unique_ptr<Decoder> MakeDecoder(const Schema& schema);

}  // namespace leat::stream

// Schemas of Avro, and programs that read the records of their writers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "stream/decode/decoder.h"
#include "stream/decode/row_writer.h"
#include "stream/schema.h"

namespace leat::stream {

struct AvroType {
  enum class Kind : uint8_t {
    kNull,
    kBoolean,
    kInt,
    kLong,
    kFloat,
    kDouble,
    kBytes,
    kString,
    kRecord,
    kEnum,
    kArray,
    kMap,
    kUnion,
    kFixed
  } kind = Kind::kNull;
  static constexpr uint64_t kVaries = ~uint64_t{0};

  std::string name;  // name of a record, enum or fixed, with its namespace
  // Record: the names of the fields. Enum: the symbols.
  std::vector<std::string> names;
  // Indexes of other types. Record: of the fields. Union: of the branches. Array, map: of the only item.
  std::vector<uint32_t> parts;
  uint64_t bytes = kVaries;  // size of each value in a record, if all have the same
  bool decimal = false;      // bytes, fixed: a whole number, times 10^-scale
  uint32_t scale = 0;

  // "a string", "the enum 'Kind'"
  std::string Describe() const;
};

// Avro schemas (specification 1.11): the JSON text of an .avsc file as a graph of types.
//
// A schema is data from outside: sizes, depth and the number of types are limited, and a record that would
// contain itself without an end is refused.
struct AvroSchema {
  static constexpr size_t kMaxText = size_t{1} << 20;
  static constexpr size_t kMaxTypes = 4096;
  static constexpr size_t kMaxDepth = 64;  // depth of the JSON

  // kDataLoss with the reason.
  static Result<AvroSchema> Parse(std::string_view json);

  std::vector<AvroType> types;
  uint32_t root = 0;
};

// The text without blanks between its tokens. kDataLoss if it is not JSON.
Result<std::string> MinifyJson(std::string_view json);

// The writers of a schema's fields, in its order; null: not read.
using Writers = std::vector<std::unique_ptr<const FieldWriter>>;

// Records of one writer's schema to rows: compiled once into a flat list of steps, then run for each record
// without allocating memory.
//
// The steps follow the record from its first byte to its last. Each reads a value that the job has a field
// for, or skips values. Unions branch to the steps of their value's type. Only skipped values without a
// constant size are walked by the types of the schema, to a limited depth. Immutable; thread-safe.
class AvroProgram {
 public:
  // Values that a record may nest, where they are skipped.
  static constexpr int kMaxDepth = 256;
  static constexpr size_t kMaxSteps = 1 << 16;

  // For the fields of `schema`, whose writers must outlive the program. `lenient`: fields with a default may
  // be missing in the writer's schema. kInvalidArgument if a field does not fit. `where`: the place of that
  // field in the job, or empty.
  static Result<AvroProgram> Compile(AvroSchema avro, const Schema& schema, const Writers& writers,
                                     bool lenient, std::string* where);

  // Writes the record to a row, or sets the reason why not. After the record, RecordBatch::kPadding bytes are
  // readable.
  bool Run(ByteView record, const Row& row, Misfit* why) const;

  // False if the field of the job, which has a default, is not in the writer's schema.
  bool Has(size_t field) const { return found_[field]; }

 private:
  friend class AvroCompiler;
  friend class AvroRun;

  enum class Op : uint8_t {
    kEnd,
    kJump,   // to `target`
    kUnion,  // to targets_[target + branch], of `count`
    // Skip: `count` bytes, one number, one string or bytes, one value of the type `count`.
    kSkipBytes,
    kSkipNumber,
    kSkipText,
    kSkipValue,
    // Write to the field.
    kDefault,
    kInt,
    kLong,
    kFloat,
    kDouble,
    kBoolean,
    kDecimal,       // bytes, of the type `count`
    kFixedDecimal,  // fixed, of the type `count`
    kString,
    kEnum,         // a symbol of symbols_[target], which has `count` symbols
    kBooleanText,  // as a category: its spelling
    kIntText,
    kLongText,
    kList,  // list with items of the type `count`
    // Dead letters: the field is null, absent, or of the type `count`, which it does not take.
    kIsNull,
    kIsMissing,
    kIsOther
  };
  struct Step {
    Op op = Op::kEnd;
    const FieldWriter* field = nullptr;
    uint64_t count = 0;
    uint32_t target = 0;
  };

  std::vector<Step> steps_;
  std::vector<std::string> names_;  // for messages: what each step reads
  std::vector<uint32_t> targets_;
  // An enum, and where a category writes each of its symbols (FieldWriter::PlaceOf).
  struct Symbols {
    uint32_t type = 0;
    std::vector<int32_t> places;
  };
  std::vector<Symbols> symbols_;
  AvroSchema avro_;
  std::vector<bool> found_;
};

}  // namespace leat::stream

// Decodes the records of a stream into rows, by a schema, and suggests settings for others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/schema.h"
#include "stream/source.h"

namespace leat::stream {

// Why a record does not match the schema.
struct Misfit {
  std::string reason;  // "amount: 'abc' is not a number"; empty: it matches
  // If text was found instead of a number: the field and the first bytes of the text.
  std::string field, text;

  Misfit() = default;
  Misfit(std::string why) : reason(std::move(why)) {}  // NOLINT: most have only a reason
  Misfit(const char* why) : reason(why) {}             // NOLINT
  bool empty() const { return reason.empty(); }
};

// Decoded rows, ready to be batched. Row i of each column belongs to the i-th good record.
struct DecodedRows {
  size_t rows = 0;
  std::vector<float> features;  // rows × schema.features(), row-major
  std::vector<float> labels;    // rows × schema.labels(): class index, or the number itself
  std::vector<float> truth;     // rows, or empty if the schema has none
  // Offset of each good record relative to `first_offset`: without dead letters 0, 1, 2, …
  std::vector<uint32_t> index;
  struct DeadLetter {
    uint64_t offset = 0;
    std::string reason;       // Misfit's
    std::string record;       // its first bytes
    std::string field, text;  // Misfit's
  };
  std::vector<DeadLetter> dead;
  // Events that were joined with no label: they are of class 0, or are left out as if they were absent.
  uint64_t unjoined = 0;
  void clear();
};

// Not thread-safe. Never throws on a record's content.
class Decoder {
 public:
  // Maximum bytes kept of a dead letter's record.
  static constexpr size_t kKeptBytes = 1024;

  virtual ~Decoder() = default;
  // Appends every record of `batch` to `out`, as a row or as a dead letter.
  virtual void Decode(const RecordBatch& batch, DecodedRows* out) = 0;
};

// Keeps dead letters in another place than the job's directory. Not thread-safe.
class DeadLetterSink {
 public:
  virtual ~DeadLetterSink() = default;
  // `dead` are records of the batch. They are kept when it returns ok; after kUnavailable some may be, and
  // the call can be repeated.
  virtual Status Keep(const RecordBatch& batch, std::span<const DecodedRows::DeadLetter> dead) = 0;
};

// Throws std::invalid_argument if the schema cannot be decoded (a CSV field that is not among the columns).
std::unique_ptr<Decoder> MakeDecoder(const Schema& schema);

// The decoders of the formats, which MakeDecoder puts together with fields beside the bytes of a record.

// CSV. Throws std::invalid_argument if a field is not among the schema's columns.
std::unique_ptr<Decoder> MakeCsvDecoder(const Schema& schema);

// JSON objects. Two parsers with the same results: JsonScanner handles typical events in one pass over the
// record. JsonParser gets everything else, valid or not, and alone decides about errors. Without `scan`
// simdjson parses everything, as the reference in tests of the scanner.
std::unique_ptr<Decoder> MakeJsonDecoder(const Schema& schema, bool scan = true);

// Avro records. Throws std::invalid_argument if a schema does not fit, or a secret of the registry cannot be
// read.
std::unique_ptr<Decoder> MakeAvroDecoder(const Schema& schema);

// Protobuf messages. Needs UseDescriptor. Throws std::invalid_argument as that does.
std::unique_ptr<Decoder> MakeProtobufDecoder(const Schema& schema);

// Little-endian arrays, and the bytes of idx.
std::unique_ptr<Decoder> MakeTensorDecoder(const Schema& schema);

// True for texts that mean a missing value: empty, "?", "NA", "null" and the like, in any case but for "na".
// Blanks around them do not count.
bool IsMissing(std::string_view text);
// True for those, and for "*" and words such as "none" and "unknown", which can be categories: where numbers
// are.
bool IsMissingNumber(std::string_view text);
// Whether the text is a whole number in groups of three digits, such as 1.234.567, whose first digit is not
// 0.
bool InThousands(std::string_view text, std::string_view separator);
// A YAML scalar that is parsed as this text.
std::string YamlText(std::string_view text);

// Collects the texts in dead letters, for fields that are declared as numbers. Bounded memory; not
// thread-safe.
class TextHint {
 public:
  static constexpr size_t kMaxFields = 64;
  // Number of values listed in the hint; further ones are indicated.
  static constexpr size_t kMaxValues = 6;

  // `csv`: numbers may have a decimal comma.
  explicit TextHint(bool csv = false) : csv_(csv) {}
  void See(const DecodedRows::DeadLetter& letter);
  // Adds the number of records that fit the schema.
  void SeeFitting(uint64_t records) { fitting_ += records; }
  // A hint for the field with the most such letters: "; `type: category, values: [no, yes]` would read
  // 'churned'". Empty if there is no text except missing values, if numbers fit in many records, or if there
  // are many texts that hardly repeat. For numbers with a comma, the setting that reads them, unless it may
  // separate thousands.
  std::string Describe() const;

 private:
  struct Texts {
    uint64_t count = 0;
    uint64_t repeats = 0;  // beyond `values`
    bool more = false;
    std::set<std::string> values;
  };
  const bool csv_;
  uint64_t fitting_ = 0;
  std::map<std::string, Texts, std::less<>> fields_;
};

}  // namespace leat::stream

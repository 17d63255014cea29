// Decodes the records of a stream into rows, by a schema.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config/config.h"
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

// The decoders of the formats (see schema.h), and of fields that are beside the bytes of a record.
// MakeDecoder (decoder.h) puts them together.

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

// Adds the fields that come from a record's key, timestamp or headers (Field::from) to the rows of `bytes`,
// which decodes all others. Batches must have schema.attributes() as `wanted`, maybe with others after them.
// Labels that come later are DecodeLateLabels's.
std::unique_ptr<Decoder> DecodeAttributes(const Schema& schema, std::unique_ptr<Decoder> bytes);

// Adds labels that come later, in records of their own that were joined with the events (join/join_source.h),
// to the rows of `events`, which decodes all others. Batches are as for DecodeAttributes. An event whose
// label does not match is a dead letter, with a reason that begins "label at offset 17: ". An event without a
// label is counted as unjoined. Throws as Schema::LateLabels.
std::unique_ptr<Decoder> DecodeLateLabels(const Schema& schema, std::unique_ptr<Decoder> events);

// Reads the settings of a field of the format tensor: dtype, shape and width of a field whose type and role
// are known.
void ReadTensor(const Config& config, Field* field);

}  // namespace leat::stream

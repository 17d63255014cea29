// Decodes the records of a stream into rows, by a schema.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
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

}  // namespace leat::stream

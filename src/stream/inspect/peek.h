// Shows records of a topic as the decoder sees them, for `leat peek`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "stream/decode/decoder.h"
#include "stream/schema.h"
#include "stream/source.h"

namespace leat::stream {

struct PeekOptions {
  std::optional<uint32_t> partition;  // not set: all of them
  uint64_t count = 10;                // number of records in all
  // Where to begin in each partition; not set: with its first record, or (`latest`) so that the last ones are
  // shown.
  std::optional<uint64_t> offset;
  bool latest = false;
};

// The records to show: `count` of them, evenly from the partitions that have enough. kNotFound, with what
// there is, if there is no such partition or offset.
Result<std::vector<PartitionRange>> PlanPeek(const std::vector<PartitionRange>& topic,
                                             const PeekOptions& options);

// A record as one line of at most `width` characters: text, with control characters escaped, or 0x and
// hexadecimal digits if it is not UTF-8.
std::string ShownRecord(ByteView record, size_t width);

// Milliseconds since 1970 as a time in RFC 3339, such as 2026-01-31T12:00:00.250Z; as the number if there is
// no such time.
std::string ShownTime(int64_t ms);

// Shows keys and times if the records have some. Not thread-safe.
class RecordPrinter {
 public:
  // A field of a decoded record: for people, and for programs.
  struct Value {
    std::string name, text;
    nlohmann::ordered_json json;
  };
  struct Options {
    bool json = false;  // an object per line, with the whole record
    size_t width = 120;
    uint64_t last_offset = 0;  // sets the width of the column
  };
  // `schema`: null shows the records alone. Labels that come later are named, and not shown. Throws as
  // MakeDecoder.
  RecordPrinter(const Schema* schema, const Options& options);
  // The attributes that batches should have (RecordBatch::wanted).
  std::vector<Attribute> wanted() const;
  // Appends the records that exist to `out`, and a heading before the first.
  void Print(const RecordBatch& batch, std::string* out);

 private:
  // A decoded record. `dead`: why it is a dead letter; empty for a good one.
  struct Decoded {
    std::vector<Value> features, labels, truth;
    std::string dead;
  };
  std::string KeyOf(const RecordBatch& batch, size_t record) const;
  std::string TimeText(const RecordBatch& batch, size_t record) const;
  // The decoder's result for the record.
  Decoded Take(uint64_t offset, size_t record, size_t* row, size_t* dead) const;
  void PrintText(const RecordBatch& batch, size_t record, const Decoded& decoded, std::string* out);
  void PrintJson(const RecordBatch& batch, size_t record, const Decoded& decoded, std::string* out);
  size_t Left(size_t used) const;

  const Options options_;
  std::optional<Schema> schema_;   // without labels that come later
  std::vector<std::string> late_;  // their names
  std::unique_ptr<Decoder> decoder_;
  DecodedRows rows_;
  size_t key_ = 0, time_ = 0;  // indexes of the attributes in the current batch
  bool began_ = false;
  bool columns_ = false;  // for keys and times
};

}  // namespace leat::stream

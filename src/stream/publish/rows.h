// The files that `leat publish` replays: their formats, and their records.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "stream/csv/split.h"
#include "stream/source.h"

namespace leat::stream {

// The key of a record that is published, and the partition that it belongs to.

// Finds the value of one field in a record. Not thread-safe.
class KeyReader {
 public:
  virtual ~KeyReader() = default;
  // The field's text; a number as it is spelled. Nothing if the record has no such field, or cannot be read.
  // The text is valid until the next call. RecordBatch::kPadding bytes after the record are readable.
  virtual std::optional<std::string_view> Find(ByteView record) = 0;
};

// `field` may be a path into nested objects: "customer.id".
std::unique_ptr<KeyReader> MakeJsonKeyReader(const std::string& field);
std::unique_ptr<KeyReader> MakeCsvKeyReader(size_t column, const CsvDialect& dialect);

// The partition that Kafka's clients choose for this key (the default of the Java client).
uint32_t PartitionOfKey(std::string_view key, uint32_t partitions);

struct RowsOptions {
  std::vector<std::string> paths;  // idx: images, labels
  std::string format;              // idx, csv or json; empty: by the files' contents
  // CSV; not set: detected, if it has to be known.
  std::optional<bool> header;
  std::optional<char> delimiter;
  std::string encoding = {};  // encoding of CSV and JSON: see FileReader
  std::string key;            // the field that is the records' key; empty: they have none
};

struct Rows {
  std::string format;
  std::vector<std::string> columns;  // the header that CSV files have; it is no record
  std::unique_ptr<Source> source;    // has one partition
  std::unique_ptr<KeyReader> key;    // null: the records have none
};

// Errors as of OpenFiles and Inspect; kInvalidArgument if there cannot be such a key.
Result<Rows> OpenRows(const RowsOptions& options);

// "idx", "csv" or "json", by the first bytes of a file, which may be gzip. kNotFound, or kDataLoss if it is
// none of them.
Result<std::string> DetectFormat(const std::string& path, const std::string& encoding = {});

}  // namespace leat::stream

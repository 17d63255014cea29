// Replays the records of files into a topic, for `leat publish`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "stream/csv/csv.h"
#include "stream/source.h"
#include "stream/topic_writer.h"

namespace leat::stream {

// Finds the key of a record: the text of one field; a number as it is spelled. Nothing if the record has no
// such field, or cannot be read. The text is valid until the next call. RecordBatch::kPadding bytes after the
// record are readable. Not thread-safe.
using KeyReader = std::function<std::optional<std::string_view>(ByteView record)>;

// `field` may be a path into nested objects: "customer.id".
KeyReader MakeJsonKeyReader(const std::string& field);
KeyReader MakeCsvKeyReader(size_t column, const CsvDialect& dialect);

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
  KeyReader key;                     // none: the records have none
};

// Errors as of OpenFiles and Inspect; kInvalidArgument if there cannot be such a key.
Result<Rows> OpenRows(const RowsOptions& options);

// "idx", "csv" or "json", by the first bytes of a file, which may be gzip. kNotFound, or kDataLoss if it is
// none of them.
Result<std::string> DetectFormat(const std::string& path, const std::string& encoding = {});

struct PublishOptions {
  double rate = 0;                  // records per second; 0: as fast as possible
  std::optional<uint64_t> shuffle;  // a seed: the records are in random order
  KeyReader key;                    // none: round robin, record by record
};

struct Published {
  uint64_t records = 0;
  uint64_t bytes = 0;  // bytes of the records that were handed over
  uint64_t without_key = 0;
};

// Callbacks of Publish while it runs, and its clock.
struct PublishHooks {
  const Clock& clock;
  std::function<void(Duration)> wait;              // may return earlier
  std::function<bool()> stopped;                   // true: publish no more
  std::function<void(const Published&)> progress;  // after each turn
};

// Publishes the records of partition 0 of `rows` until all are in the topic, or `stopped`. `done` says what
// is in the topic, also after an error.
Status Publish(Source& rows, TopicWriter& writer, const PublishOptions& options, const PublishHooks& hooks,
               Published* done);

}  // namespace leat::stream

// The files that `leat publish` replays: their formats, and their records.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "stream/publish/key.h"
#include "stream/source.h"

namespace leat::stream {

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

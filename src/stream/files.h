// Files read in place as a topic (row I4): idx (plain or gzip'd) and CSV (plain or gzip'd).
//
// The rows of a file become the records of `partitions` partitions, in contiguous shares; the topic is
// sealed. Records: idx — the image's bytes, then one byte of label; CSV — the line without its end
// (a field in quotes cannot span lines; lines with nothing but blanks are no records).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stream/source.h"

namespace leat::stream {

struct FileSourceOptions {
  std::string format;              // "idx" | "csv"
  std::vector<std::string> paths;  // idx: images, labels; csv: one or more files, read one after the other
  uint32_t partitions = 1;
  bool header = false;  // csv: skip the first line of each file
};

// Reads and checks the files whole: kNotFound, kDataLoss with path and values (wrong magic, truncated, images
// and labels that differ in number).
Result<std::unique_ptr<Source>> OpenFiles(const FileSourceOptions& options);

// The names in the first line of a CSV file, for Schema::UseColumns.
Result<std::vector<std::string>> ReadCsvHeader(const std::string& path);

// An idx file of bytes: magic 0x0800 + number of sizes, the sizes as big-endian u32, the bytes.
struct Idx {
  std::vector<uint32_t> sizes;
  ByteView data;  // of what was parsed
};
// `name` is what messages call the file.
Result<Idx> ParseIdx(ByteView file, const std::string& name);

}  // namespace leat::stream

// Files read in place as a topic: idx, CSV, JSON lines and text, plain or gzip'd.
//
// The rows of a file become the records of `partitions` partitions, in contiguous shares; the topic is
// sealed. Records: idx — the image's bytes, then one byte of label; CSV — the line without its end
// (a field in quotes cannot span lines; lines with nothing but blanks are no records); text — `sequence` + 1
// characters (bytes), the next record `stride` further on, of each file by itself; what is left at its end
// and too short is none. A record holds one character more than the sequence, so that with the stride of a
// sequence each character but the first is once what follows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stream/source.h"

namespace leat::stream {

struct FileSourceOptions {
  std::string format;              // "idx" | "csv" | "json" | "text"
  std::vector<std::string> paths;  // idx: images, labels; else one or more files, read one after the other
  uint32_t partitions = 1;
  bool header = false;    // csv: skip the first line of each file
  uint32_t sequence = 0;  // text: > 0
  uint32_t stride = 0;    // text: from record to record; 0: the sequence
  // Text: the share of each file that is read, as parts of 1. What ends at x and what begins at x have no
  // character in common.
  double part_begin = 0, part_end = 1;
};

// Reads and checks the files whole: kNotFound, kDataLoss with path and values (wrong magic, truncated, images
// and labels that differ in number).
Result<std::unique_ptr<Source>> OpenFiles(const FileSourceOptions& options);

// The names in the first line of a CSV file, for Schema::UseColumns.
Result<std::vector<std::string>> ReadCsvHeader(const std::string& path, char delimiter);

// An idx file of bytes: magic 0x0800 + number of sizes, the sizes as big-endian u32, the bytes.
struct Idx {
  std::vector<uint32_t> sizes;
  ByteView data;  // of what was parsed
};
// `name` is what messages call the file.
Result<Idx> ParseIdx(ByteView file, const std::string& name);

}  // namespace leat::stream

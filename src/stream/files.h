// Files as a topic, read in place: idx, CSV, JSON lines and text, plain or gzip.
//
// The records of the files form `partitions` contiguous shares of a sealed topic; records that were added
// since belong to the last one. Records: idx: the bytes of an image, then one byte of label. CSV: as of
// csv/csv.h; JSON: a line without its end. Blank lines are skipped. Text: `sequence` + 1 characters (bytes),
// the next record `stride` later, within one file; an incomplete record at the end is dropped. A record has
// one character more than the sequence, so that with stride = sequence every character except the first is
// once the one to predict.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "stream/csv/csv.h"
#include "stream/source.h"

namespace leat::stream {

struct FileSourceOptions {
  std::string format;              // "idx" | "csv" | "json" | "text"
  std::vector<std::string> paths;  // idx: images, labels; else one or more files, read one after the other
  uint32_t partitions = 1;
  bool header = false;        // csv: skip the first record of each file
  CsvDialect csv = {};        // csv: where records and fields end
  std::string encoding = {};  // csv, json: of the text (FileReader); empty: UTF-8
  uint32_t sequence = 0;      // text: > 0
  uint32_t stride = 0;        // text: distance between records; 0: the sequence
  // Text: the part of each file to read, as fractions. A part that ends at x and one that begins at x have no
  // character in common.
  double part_begin = 0, part_end = 1;
  uint64_t bytes = UINT64_MAX;  // csv, json, text: of each file that are read, as if it ended there
  // Files that have grown since a job read them first: how many records of each file each earlier run had,
  // the first run first. Their records come in the order of runs, and those of the first run are shared out
  // to the partitions. A file that a run did not have has 0.
  std::vector<std::vector<uint64_t>> readings = {};
};

// Reads and checks whole files: kNotFound, or kDataLoss with path and values (wrong magic, truncated,
// different numbers of images and labels, a file of another kind).
Result<std::unique_ptr<Source>> OpenFiles(const FileSourceOptions& options);

// The names in the first record of a CSV file, for Schema::UseColumns.
Result<std::vector<std::string>> ReadCsvHeader(const std::string& path, const CsvDialect& csv,
                                               const std::string& encoding);

// An idx file of bytes: magic 0x0800 + number of dimensions, the sizes as big-endian u32, the bytes.
struct Idx {
  std::vector<uint32_t> sizes;
  ByteView data;  // refers to the parsed bytes
};
// `name` is the name of the file in messages.
Result<Idx> ParseIdx(ByteView file, const std::string& name);

// Identities of files: copies of a file on several hosts have the same one.

struct FileIdentity {
  uint64_t bytes = 0;
  uint64_t hash = 0;  // detects another file, not an attack
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// Files above this size are hashed in part: the first and the last MiB, and 16 more at pseudo-random offsets.
inline constexpr uint64_t kMaxHashedWhole = uint64_t{1} << 30;

// "BYTES:HASH", the hash as 16 hexadecimal digits.
std::string ToString(const FileIdentity& identity);
// kInvalidArgument if the text is not one of ToString's.
Result<FileIdentity> ParseIdentity(std::string_view text);

// The identity of a file. kNotFound if there is no such file, else CodeOfErrno if it cannot be read.
Result<FileIdentity> IdentifyFile(const std::string& path, uint64_t max_hashed_whole = kMaxHashedWhole);

// The identity of a file with the first `bytes` of this one, which it must have: kDataLoss if it is shorter.
Result<FileIdentity> IdentifyStart(const std::string& path, uint64_t bytes,
                                   uint64_t max_hashed_whole = kMaxHashedWhole);

}  // namespace leat::stream

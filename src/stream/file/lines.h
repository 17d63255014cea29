// Reads a text file record by record in bounded memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "stream/csv/split.h"
#include "stream/file/file_reader.h"

namespace leat::stream {

// Not thread-safe.
class LineReader {
 public:
  // A longer record means that this is not a text file with lines.
  static constexpr size_t kMaxLine = size_t{16} << 20;

  // `csv`: records are those of CSV, which may have several lines; none: each line is one. Errors as of
  // FileReader::Open.
  static Result<std::unique_ptr<LineReader>> Open(const std::string& path,
                                                  const FileReader::Options& options = {},
                                                  std::optional<CsvDialect> csv = std::nullopt);

  // The next record that is no blank line, without its line end; false at the end of the file. The view is
  // valid until the next call; the kPadding bytes after it are readable. kDataLoss with path and line if the
  // file cannot be read or a record is too long.
  static constexpr size_t kPadding = 64;
  Result<bool> Next(std::string_view* record);
  // Number of the last record's first line, counting blank lines; the first is 1.
  uint64_t line() const { return line_; }

 private:
  LineReader(std::unique_ptr<FileReader> file, std::string path, std::optional<CsvDialect> csv);
  // Appends more data to the buffer; false at the end of the file.
  Result<bool> Fill();

  const std::unique_ptr<FileReader> file_;
  const std::string path_;
  const std::optional<CsvDialect> csv_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;  // range of the data read but not returned yet
  uint64_t line_ = 0, next_line_ = 1;
  bool ended_ = false;  // the file; `buffer_` has the rest
};

// The beginning of a file's text: whole lines of about kSampleBytes. Errors as of FileReader; kDataLoss if it
// has nothing but blanks.
inline constexpr size_t kSampleBytes = size_t{1} << 20;
Result<std::string> SampleText(const std::string& path, const FileReader::Options& options);

}  // namespace leat::stream

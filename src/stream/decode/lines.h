// Reads a text file line by line in bounded memory; decompresses gzip files while reading.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat::stream {

// Some programs write this at the beginning of a text file.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Not thread-safe.
class LineReader {
 public:
  // A longer line means that this is not a text file with lines.
  static constexpr size_t kMaxLine = size_t{16} << 20;

  // kNotFound if there is no such regular file; kPermissionDenied if it cannot be opened.
  static Result<std::unique_ptr<LineReader>> Open(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next non-blank line without its line end (and byte order mark); false at the end of the file. The
  // view is valid until the next call; the kPadding bytes after it are readable. kDataLoss with path and line
  // if the file cannot be decompressed or a line is too long.
  static constexpr size_t kPadding = 64;
  Result<bool> Next(std::string_view* line);
  // Number of the last line read, counting blank lines; the first is 1.
  uint64_t line() const { return line_; }

 private:
  struct File;
  LineReader(std::unique_ptr<File> file, std::string path);
  // Appends more data to the buffer; false at the end of the file.
  Result<bool> Fill();

  std::unique_ptr<File> file_;
  const std::string path_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;  // of data read but not returned yet
  uint64_t line_ = 0;
};

}  // namespace leat::stream

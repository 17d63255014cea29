// A text file line by line, in bounded memory; gzip'd files are unpacked as they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat::stream {

// What some programs begin a text file with.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Not thread-safe.
class LineReader {
 public:
  // A longer line means that the file is not one of lines.
  static constexpr size_t kMaxLine = size_t{16} << 20;

  // kNotFound when there is no such regular file; kPermissionDenied when it cannot be opened.
  static Result<std::unique_ptr<LineReader>> Open(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line that is not blank, without its line end (and byte order mark); false at the end of the
  // file. The view, behind which kPadding bytes can be read, is valid until the next call. kDataLoss, with
  // path and line, when the file cannot be unpacked or a line is too long.
  static constexpr size_t kPadding = 64;
  Result<bool> Next(std::string_view* line);
  // Number of the line that was read last, blank ones counted; the first is 1.
  uint64_t line() const { return line_; }

 private:
  struct File;
  LineReader(std::unique_ptr<File> file, std::string path);
  // Reads more behind what is there; false at the end of the file.
  Result<bool> Fill();

  std::unique_ptr<File> file_;
  const std::string path_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;  // of what has been read and not yet returned
  uint64_t line_ = 0;
};

}  // namespace leat::stream

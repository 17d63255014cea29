// Reads the bytes of a file: decompresses gzip, converts other encodings to UTF-8.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::stream {

// Some programs write this at the beginning of a text file.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The rule for a job's setting; empty if there is such an encoding. Names are those of iconv, in any case and
// with or without hyphens: latin-1, windows-1252, utf-16.
std::string WhyNoEncoding(const std::string& name);

// Not thread-safe.
class FileReader {
 public:
  struct Options {
    std::string format = "";      // expected format: see WrongBytes
    std::string encoding = "";    // encoding of its text; empty or utf-8: its bytes are taken as they are
    uint64_t bytes = UINT64_MAX;  // bytes of the file that are read: as if it ended there
  };
  // kNotFound if there is no such regular file; kPermissionDenied if it cannot be opened; kDataLoss if it is
  // something else, with a remedy, or cannot be decompressed; kInvalidArgument if there is no such encoding.
  static Result<std::unique_ptr<FileReader>> Open(const std::string& path, const Options& options);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  // The next bytes, at most `size` (> 0); 0 at the end of the file. kDataLoss if they cannot be decompressed
  // or are not of the encoding.
  Result<size_t> Read(char* out, size_t size);
  // The first bytes, which Read gives again. A byte order mark is left out, but not from "text", whose
  // records are bytes.
  std::string_view head() const { return head_; }

 private:
  class Converter;
  class File;
  FileReader(std::unique_ptr<File> file, std::string path);
  Result<size_t> Unpack(char* out, size_t size);
  // Appends converted bytes to `pending_`; false at the end of the file.
  Result<bool> Convert();

  const std::unique_ptr<File> file_;
  const std::string path_;
  std::unique_ptr<Converter> converter_;  // null: none is needed
  std::string head_;
  std::string pending_;  // read or converted, but not returned
  size_t returned_ = 0;  // bytes of `pending_` that were returned
};

// The whole file.
Result<Bytes> ReadWholeFile(const std::string& path, const FileReader::Options& options);

}  // namespace leat::stream

// Reads the bytes of a file: decompresses gzip, converts other encodings to UTF-8.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "stream/csv/csv.h"

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

// Reads a text file record by record in bounded memory.

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

// Names files that are something else than text with a record per line, and says what to do with them.

// Why a file that begins with these bytes (after gzip) cannot be read as `format`, "csv", "json", "text" or
// "idx", or as one of them if it is empty: "is a zip archive; …". Empty if nothing speaks against it. `path`
// is for the commands that the text suggests. `encoded`: the job says that its text is not UTF-8.
std::string WrongBytes(std::string_view head, std::string_view format, const std::string& path, bool encoded);

// The same of the beginning of its text, which is converted to UTF-8.
std::string WrongText(std::string_view head, std::string_view format, const std::string& path);

// Parts of the commands that messages propose for a file.

// The path as a word of the shell.
std::string ShellWord(const std::string& path);
// A name for what a command makes of the file; never the file's own. "data/rows.txt", ".csv" →
// "rows.new.csv".
std::string NewFile(const std::string& path, const std::string& extension);
// "tail -n +3 rows.csv > rows.new.csv", for the file without the lines before this one.
std::string FromLine(const std::string& path, size_t line);

}  // namespace leat::stream

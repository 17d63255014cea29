#include "stream/publish/rows.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/config/config.h"
#include "stream/decode/lines.h"
#include "stream/files.h"
#include "stream/inspect/inspect.h"

namespace leat::stream {
namespace {

// The names of the columns, or their number where there is no header.
struct CsvHead {
  bool header = false;
  char delimiter = ',';
  std::vector<std::string> columns;  // c1, c2, … without a header
};

Result<CsvHead> ReadHead(const RowsOptions& options) {
  CsvHead head;
  for (const std::string& path : options.paths) {
    LEAT_ASSIGN_OR_RETURN(
        const Inspection found,
        Inspect(path, {.rows = 1, .delimiter = options.delimiter, .header = options.header}));
    CsvHead own{.header = found.header, .delimiter = found.delimiter.character, .columns = {}};
    for (const Column& column : found.columns) own.columns.push_back(column.name);
    if (head.columns.empty()) head = own;
    if (own.header != head.header || own.columns != head.columns || own.delimiter != head.delimiter) {
      return Status(Code::kInvalidArgument,
                    path + ": has other columns than " + options.paths.front() + "; publish them one by one");
    }
  }
  return head;
}

Result<size_t> ColumnOf(const RowsOptions& options, const CsvHead& head) {
  const auto at = std::ranges::find(head.columns, options.key);
  if (at != head.columns.end()) return static_cast<size_t>(at - head.columns.begin());
  const std::string near = Nearest(options.key, head.columns);
  return Status(Code::kInvalidArgument, options.paths.front() + ": has no column '" + options.key + "'" +
                                            (near.empty() ? "" : "; did you mean '" + near + "'?"));
}

}  // namespace

Result<std::string> DetectFormat(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return Status(Code::kNotFound, path + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return Status(Code::kNotFound, path + ": is not a file");
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) return Status(Code::kPermissionDenied, path + ": " + std::strerror(errno));
  std::array<char, 4096> start;
  const int read = gzread(file.get(), start.data(), start.size());
  if (read < 0) return Status(Code::kDataLoss, path + ": cannot be unpacked");
  std::string_view text(start.data(), static_cast<size_t>(read));
  if (text.starts_with(std::string_view("\0\0\x08", 3))) return std::string("idx");
  if (text.find('\0') != std::string_view::npos)
    return Status(Code::kDataLoss, path + ": is neither idx, CSV nor JSON lines");
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return Status(Code::kDataLoss, path + ": has no records");
  return std::string(text[first] == '{' ? "json" : "csv");
}

Result<Rows> OpenRows(const RowsOptions& options) {
  if (options.paths.empty()) return Status(Code::kInvalidArgument, "no files are named");
  Rows rows{.format = options.format, .columns = {}, .source = nullptr, .key = nullptr};
  if (rows.format.empty()) {
    LEAT_ASSIGN_OR_RETURN(rows.format, DetectFormat(options.paths.front()));
  }
  FileSourceOptions files{.format = rows.format, .paths = options.paths};
  const bool csv = rows.format == "csv";
  if (csv) {
    files.header = options.header.value_or(false);
    if (!options.header || *options.header || !options.key.empty()) {
      LEAT_ASSIGN_OR_RETURN(CsvHead head, ReadHead(options));
      files.header = head.header;
      if (!options.key.empty()) {
        LEAT_ASSIGN_OR_RETURN(const size_t column, ColumnOf(options, head));
        rows.key = MakeCsvKeyReader(column, head.delimiter);
      }
      if (head.header) rows.columns = std::move(head.columns);
    }
  } else if (!options.key.empty()) {
    if (rows.format != "json")
      return Status(Code::kInvalidArgument, options.paths.front() + ": records of " + rows.format +
                                                " have no field '" + options.key + "' to be the key");
    rows.key = MakeJsonKeyReader(options.key);
  }
  LEAT_ASSIGN_OR_RETURN(rows.source, OpenFiles(files));
  return rows;
}

}  // namespace leat::stream

#include "stream/publish/rows.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/config/config.h"
#include "stream/file/file_reader.h"
#include "stream/files.h"
#include "stream/inspect/inspect.h"

namespace leat::stream {
namespace {

// The names of the columns, or their number where there is no header.
struct CsvHead {
  bool header = false;
  CsvDialect dialect;
  std::vector<std::string> columns;  // c1, c2, … without a header
};

Result<CsvHead> ReadHead(const RowsOptions& options) {
  CsvHead head;
  for (const std::string& path : options.paths) {
    LEAT_ASSIGN_OR_RETURN(const Inspection found, Inspect(path, {.rows = 1,
                                                                 .csv = {.delimiter = options.delimiter},
                                                                 .header = options.header,
                                                                 .encoding = options.encoding}));
    CsvHead own{.header = found.header, .dialect = {found.delimiter.character, found.quote, found.escape}};
    for (const Column& column : found.columns) own.columns.push_back(column.name);
    if (head.columns.empty()) head = own;
    if (own.header != head.header || own.columns != head.columns || own.dialect != head.dialect) {
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

Result<std::string> DetectFormat(const std::string& path, const std::string& encoding) {
  LEAT_ASSIGN_OR_RETURN(const auto file, FileReader::Open(path, {.format = "", .encoding = encoding}));
  const std::string_view text = file->head().substr(0, 4096);
  if (text.starts_with(std::string_view("\0\0\x08", 3))) return std::string("idx");
  if (text.find('\0') != std::string_view::npos)
    return Status(Code::kDataLoss, path + ": is neither idx, CSV nor JSON lines");
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return Status(Code::kDataLoss, path + ": has no records");
  return std::string(text[first] == '{' ? "json" : "csv");
}

Result<Rows> OpenRows(const RowsOptions& options) {
  if (options.paths.empty()) return Status(Code::kInvalidArgument, "no files are named");
  Rows rows{.format = options.format, .source = nullptr, .key = nullptr};
  if (rows.format.empty()) {
    LEAT_ASSIGN_OR_RETURN(rows.format, DetectFormat(options.paths.front(), options.encoding));
  }
  FileSourceOptions files{.format = rows.format, .paths = options.paths};
  if (rows.format != "idx") files.encoding = options.encoding;
  const bool csv = rows.format == "csv";
  if (csv) {
    auto head = ReadHead(options);
    const bool needed = !options.header || *options.header || !options.key.empty();
    if (!head.ok() && needed) return head.status();
    if (head.ok()) {
      files.csv = head->dialect;
      files.header = head->header;
      if (!options.key.empty()) {
        LEAT_ASSIGN_OR_RETURN(const size_t column, ColumnOf(options, *head));
        rows.key = MakeCsvKeyReader(column, head->dialect);
      }
      if (head->header) rows.columns = std::move(head->columns);
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

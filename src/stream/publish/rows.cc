#include "stream/publish/rows.h"

#include <librdkafka/rdkafka.h>
#include <simdjson.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config/config.h"
#include "base/text.h"
#include "stream/csv/split.h"
#include "stream/file/file_reader.h"
#include "stream/files.h"
#include "stream/inspect/inspect.h"
#include "stream/source.h"

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

namespace {

class JsonKeyReader final : public KeyReader {
 public:
  explicit JsonKeyReader(const std::string& field) {
    for (size_t at = 0;;) {
      const size_t end = field.find('.', at);
      path_.push_back(field.substr(at, end - at));
      if (end == std::string::npos) break;
      at = end + 1;
    }
  }

  std::optional<std::string_view> Find(ByteView record) override {
    const simdjson::padded_string_view padded(AsText(record), record.size() + RecordBatch::kPadding);
    simdjson::ondemand::document document;
    simdjson::ondemand::value value;
    if (parser_.iterate(padded).get(document)) return std::nullopt;
    if (document.find_field_unordered(path_.front()).get(value)) return std::nullopt;
    for (size_t i = 1; i < path_.size(); ++i) {
      if (value.find_field_unordered(path_[i]).get(value)) return std::nullopt;
    }
    return TextOf(value);
  }

 private:
  static std::optional<std::string_view> TextOf(simdjson::ondemand::value value) {
    simdjson::ondemand::json_type type;
    if (value.type().get(type)) return std::nullopt;
    using Type = simdjson::ondemand::json_type;
    std::string_view text;
    if (type == Type::string) {
      if (value.get_string().get(text)) return std::nullopt;
      return text;
    }
    if (type != Type::number && type != Type::boolean) return std::nullopt;
    text = value.raw_json_token();
    return Trimmed(text, " \t\r");
  }

  std::vector<std::string> path_;
  simdjson::ondemand::parser parser_;
};

class CsvKeyReader final : public KeyReader {
 public:
  CsvKeyReader(size_t column, const CsvDialect& dialect) : column_(column), dialect_(dialect) {}

  std::optional<std::string_view> Find(ByteView record) override {
    if (!SplitCsv(AsText(record), dialect_, &fields_, &scratch_).empty()) return std::nullopt;
    if (column_ >= fields_.size() || fields_[column_].empty()) return std::nullopt;
    return fields_[column_];
  }

 private:
  const size_t column_;
  const CsvDialect dialect_;
  std::vector<std::string_view> fields_;
  std::string scratch_;
};

}  // namespace

std::unique_ptr<KeyReader> MakeJsonKeyReader(const std::string& field) {
  return std::make_unique<JsonKeyReader>(field);
}

std::unique_ptr<KeyReader> MakeCsvKeyReader(size_t column, const CsvDialect& dialect) {
  return std::make_unique<CsvKeyReader>(column, dialect);
}

uint32_t PartitionOfKey(std::string_view key, uint32_t partitions) {
  return static_cast<uint32_t>(rd_kafka_msg_partitioner_murmur2(
      nullptr, key.data(), key.size(), static_cast<int32_t>(partitions), nullptr, nullptr));
}

}  // namespace leat::stream

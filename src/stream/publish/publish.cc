#include "stream/publish/publish.h"

#include <librdkafka/rdkafka.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "base/config/config.h"
#include "base/rng.h"
#include "base/text.h"
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

std::optional<std::string_view> TextOfKey(simdjson::ondemand::value value) {
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

// Limits of the records that are handed over at a time.
constexpr uint64_t kTurn = 32'768;
constexpr uint64_t kTurnBytes = 4 << 20;
constexpr uint64_t kFirstTurn = 256;  // their size is not known yet
// A paced publisher wakes up this often, and less often if no record is due.
constexpr Duration kTick = std::chrono::milliseconds(10);

class Publisher {
 public:
  Publisher(Source& rows, TopicWriter& writer, const PublishOptions& options, const PublishHooks& hooks)
      : rows_(rows), writer_(writer), options_(options), hooks_(hooks), parts_(writer.partitions()) {}

  Status Run(Published* done) {
    LEAT_ASSIGN_OR_RETURN(const auto ranges, rows_.Ranges());
    total_ = ranges.at(0).end;
    if (options_.shuffle) {
      order_.resize(total_);
      Permutation(std::span(order_), *options_.shuffle);
    }
    const Status status = PublishAll();
    *done = Done();
    return status;
  }

 private:
  // Without the records that are on their way, or have failed.
  Published Done() const {
    Published done = sent_;
    done.records -= std::min(done.records, writer_.waiting());
    return done;
  }

  Status PublishAll() {
    const Time start = hooks_.clock.Now();
    while (sent_.records < total_ && !hooks_.stopped()) {
      const uint64_t due = Due(hooks_.clock.Now() - start);
      if (due == 0) {
        hooks_.wait(std::max<Duration>(kTick, NextDue() - (hooks_.clock.Now() - start)));
        continue;
      }
      LEAT_RETURN_IF_ERROR(PublishNext(due));
      hooks_.progress(Done());
    }
    return writer_.Flush();
  }

  // Records to publish now, after this time.
  uint64_t Due(Duration elapsed) const {
    uint64_t most = kFirstTurn;
    if (sent_.bytes > 0) most = std::clamp<uint64_t>(kTurnBytes * sent_.records / sent_.bytes, 1, kTurn);
    uint64_t end = total_;
    if (options_.rate > 0) {
      const double by_now = Seconds(elapsed) * options_.rate;
      if (by_now < static_cast<double>(total_)) end = static_cast<uint64_t>(by_now);
    }
    return std::min(most, end - std::min(end, sent_.records));
  }
  // When the next record is due.
  Duration NextDue() const { return FromSeconds(static_cast<double>(sent_.records + 1) / options_.rate); }

  // Publishes the next records: each partition's together.
  Status PublishNext(uint64_t count) {
    LEAT_RETURN_IF_ERROR(Read(sent_.records, count));
    keys_.resize(count);
    for (auto& part : parts_) part.clear();
    for (size_t i = 0; i < count; ++i) Place(i);
    for (uint32_t partition = 0; partition < parts_.size(); ++partition) {
      const auto& part = parts_[partition];
      if (part.empty()) continue;
      LEAT_RETURN_IF_ERROR(writer_.Send(partition, part));
      sent_.records += part.size();
      for (const TopicRecord& record : part) sent_.bytes += record.value.size();
    }
    return {};
  }

  // Puts a record of the turn into its partition.
  void Place(size_t i) {
    TopicRecord record{.value = AsText(batch_[i])};
    // Numbers of this run: the place in the file, unless it is shuffled.
    auto partition = static_cast<uint32_t>((sent_.records + i) % parts_.size());
    if (options_.key) {
      if (const auto key = options_.key(batch_[i])) {
        record.key = keys_[i] = *key;
        partition = PartitionOfKey(record.key, writer_.partitions());
      } else {
        ++sent_.without_key;
      }
    }
    parts_[partition].push_back(record);
  }

  Status Read(uint64_t begin, uint64_t count) {
    if (order_.empty()) return rows_.Read(0, begin, begin + count, &batch_);
    batch_.Restart(0, begin);
    for (uint64_t i = begin; i < begin + count; ++i) {
      LEAT_RETURN_IF_ERROR(rows_.Read(0, order_[i], order_[i] + 1, &one_));
      batch_.Add(one_[0]);
    }
    batch_.data.resize(batch_.data.size() + RecordBatch::kPadding);
    return {};
  }

  Source& rows_;
  TopicWriter& writer_;
  const PublishOptions& options_;
  const PublishHooks& hooks_;
  uint64_t total_ = 0;
  std::vector<uint64_t> order_;  // order of the records, if it is random
  Published sent_;
  // State of the current turn.
  RecordBatch batch_, one_;
  std::vector<std::string> keys_;
  std::vector<std::vector<TopicRecord>> parts_;  // by partition
};

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
  Rows rows{.format = options.format, .source = nullptr};
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

KeyReader MakeJsonKeyReader(const std::string& field) {
  std::vector<std::string> path;
  for (size_t at = 0; at <= field.size(); at += path.back().size() + 1)
    path.push_back(field.substr(at, std::min(field.find('.', at), field.size()) - at));
  return [path, parser = std::make_shared<simdjson::ondemand::parser>()](
             ByteView record) -> std::optional<std::string_view> {
    const simdjson::padded_string_view padded(AsText(record), record.size() + RecordBatch::kPadding);
    simdjson::ondemand::document document;
    simdjson::ondemand::value value;
    if (parser->iterate(padded).get(document)) return std::nullopt;
    if (document.find_field_unordered(path.front()).get(value)) return std::nullopt;
    for (size_t i = 1; i < path.size(); ++i) {
      if (value.find_field_unordered(path[i]).get(value)) return std::nullopt;
    }
    return TextOfKey(value);
  };
}

KeyReader MakeCsvKeyReader(size_t column, const CsvDialect& dialect) {
  return [column, dialect, fields = std::vector<std::string_view>(),
          scratch = std::string()](ByteView record) mutable -> std::optional<std::string_view> {
    if (!SplitCsv(AsText(record), dialect, &fields, &scratch).empty()) return std::nullopt;
    if (column >= fields.size() || fields[column].empty()) return std::nullopt;
    return fields[column];
  };
}

uint32_t PartitionOfKey(std::string_view key, uint32_t partitions) {
  return static_cast<uint32_t>(rd_kafka_msg_partitioner_murmur2(
      nullptr, key.data(), key.size(), static_cast<int32_t>(partitions), nullptr, nullptr));
}

Status Publish(Source& rows, TopicWriter& writer, const PublishOptions& options, const PublishHooks& hooks,
               Published* done) {
  return Publisher(rows, writer, options, hooks).Run(done);
}

}  // namespace leat::stream

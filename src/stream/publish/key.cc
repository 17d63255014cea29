#include "stream/publish/key.h"

#include <librdkafka/rdkafka.h>
#include <simdjson.h>

#include <vector>

#include "base/text.h"
#include "stream/csv/split.h"
#include "stream/source.h"

namespace leat::stream {
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

#include "serve/event_reader.h"

#include <simdjson.h>

#include <cmath>
#include <utility>

#include "base/json/text.h"
#include "base/text.h"
#include "stream/file/file_reader.h"

namespace leat::serve {
namespace {

using Format = stream::Schema::Format;

namespace ondemand = simdjson::ondemand;

// Takes the text of an array's element, and skips its contents.
simdjson::error_code ElementText(ondemand::value value, ondemand::json_type type, std::string_view* text) {
  if (type == ondemand::json_type::object) {
    ondemand::object object;
    if (const auto error = value.get_object().get(object)) return error;
    return object.raw_json().get(*text);
  }
  if (type == ondemand::json_type::array) {
    ondemand::array array;
    if (const auto error = value.get_array().get(array)) return error;
    return array.raw_json().get(*text);
  }
  *text = value.raw_json_token();
  return simdjson::SUCCESS;
}

// "application/json" of "Application/JSON; charset=utf-8".
std::string TypeOf(std::string_view content_type) {
  return Lower(Trimmed(content_type.substr(0, content_type.find(';'))));
}

Status TooMany(size_t most) {
  return {Code::kResourceExhausted, "more than " + std::to_string(most) + " events in a request"};
}

// Whether the events can be JSON objects.
bool HasNames(const stream::Schema& schema) {
  return schema.format == Format::kJson || schema.format == Format::kCsv || schema.format == Format::kAvro ||
         schema.format == Format::kProtobuf;
}

// The schema of events that are to be predicted: without labels and truth. `json`: as JSON objects, in which
// keys and headers of records are fields of their names.
stream::Schema PredictionSchema(const stream::Schema& schema, bool json) {
  stream::Schema events = schema;
  events.label_records.reset();
  const bool by_position =
      !json && (schema.format == Format::kIdx || schema.format == Format::kTensor ||
                schema.format == Format::kText || (schema.format == Format::kCsv && schema.columns.empty()));
  std::erase_if(events.fields, [&](const stream::Field& field) {
    return field.is_late() || (!by_position && field.role != stream::Role::kFeature);
  });
  for (stream::Field& field : events.fields) {
    if (field.role != stream::Role::kFeature) field.role = stream::Role::kIgnore;
    if (!json || !field.from) continue;
    field.from.reset();
    field.path = {field.name};
  }
  if (json) {
    events.format = Format::kJson;
    events.columns.clear();
  }
  return events;
}

}  // namespace

Result<std::string_view> TextOf(std::string_view body) {
  if (body.starts_with("\xFF\xFE") || body.starts_with("\xFE\xFF"))
    return Status(Code::kInvalidArgument, "the body is in UTF-16; send UTF-8");
  if (body.starts_with(stream::kByteOrderMark)) body.remove_prefix(stream::kByteOrderMark.size());
  return body;
}

struct EventReader::Parser {
  simdjson::ondemand::parser json;
  std::vector<char> padded;
};

EventReader::EventReader(const job::Job& job, size_t max_rows)
    : format_(job.schema.format),
      csv_(job.schema.dialect()),
      max_rows_(max_rows),
      parser_(std::make_unique<Parser>()) {
  features_ = job.schema.features();
  raw_ = stream::MakeDecoder(PredictionSchema(job.schema, false));
  if (HasNames(job.schema)) json_ = stream::MakeDecoder(PredictionSchema(job.schema, true));
  uint32_t first = 0;
  for (const stream::Field& field : job.schema.fields) {
    if (field.role != stream::Role::kFeature) continue;
    if (field.ids() > 0)
      ids_.push_back({.first = first, .count = field.features(), .below = field.ids(), .field = field.name});
    first += field.features();
  }
}

EventReader::~EventReader() = default;

void EventReader::Append(std::string_view record) {
  const auto bytes = std::as_bytes(std::span(record));
  batch_.data.insert(batch_.data.end(), bytes.begin(), bytes.end());
  batch_.offsets.push_back(batch_.data.size());
}

Result<EventReader::Events*> EventReader::Decode(stream::Decoder& decoder, bool single) {
  batch_.data.resize(batch_.data.size() + stream::RecordBatch::kPadding);
  events_.single = single;
  events_.count = batch_.size();
  events_.rows.clear();
  decoder.Decode(batch_, &events_.rows);
  return &events_;
}

Status EventReader::AppendArray(std::string_view body) {
  auto& padded = parser_->padded;
  padded.assign(body.begin(), body.end());
  padded.resize(body.size() + simdjson::SIMDJSON_PADDING);  // zeros, and nothing of a body before it
  const auto bad = [](simdjson::error_code error) {
    return Status(Code::kInvalidArgument, std::string("not JSON: ") + simdjson::error_message(error));
  };
  ondemand::document document;
  if (const auto error = parser_->json.iterate(padded.data(), body.size(), padded.size()).get(document))
    return bad(error);
  ondemand::array array;
  if (const auto error = document.get_array().get(array)) return bad(error);
  for (auto element : array) {
    ondemand::value value;
    if (const auto error = std::move(element).get(value)) return bad(error);
    auto type = ondemand::json_type::null;
    const bool known = value.type().get(type) == simdjson::SUCCESS;
    std::string_view text;
    if (const auto error = ElementText(value, type, &text)) return bad(error);
    // The decoder refuses each element that is not an object by itself. Without JSON there are no elements.
    if (type != ondemand::json_type::object && !(known && IsJson(text)))
      return {Code::kInvalidArgument, "not JSON: event " + std::to_string(batch_.size())};
    if (batch_.size() == max_rows_) return TooMany(max_rows_);
    Append(text);
  }
  if (const char* rest = nullptr; document.current_location().get(rest) != simdjson::OUT_OF_BOUNDS)
    return {Code::kInvalidArgument, "not JSON: something comes after the array"};
  return {};
}

Status EventReader::AppendRecords(std::string_view body, const stream::CsvDialect& dialect) {
  while (!body.empty()) {
    const stream::CsvRecord first = stream::FirstCsvRecord(body, dialect);
    std::string_view record = body.substr(0, first.end);
    body.remove_prefix(first.next);
    if (!stream::TrimCsvRecord(dialect, &record)) continue;
    if (batch_.size() == max_rows_) return TooMany(max_rows_);
    Append(record);
  }
  return {};
}

Result<EventReader::Events*> EventReader::Read(std::string_view content_type, std::string_view body) {
  const std::string type = TypeOf(content_type);
  batch_.Restart(0, 0);
  const bool json = type == "application/json", lines = type == "application/x-ndjson",
             csv = type == "text/csv";
  if ((json || lines) && json_ == nullptr) {
    return Status(Code::kInvalidArgument,
                  "the job's events have no named fields: send a record as application/octet-stream");
  }
  if (csv && format_ != Format::kCsv) return Status(Code::kInvalidArgument, "the job's events are not csv");
  if (csv || lines) {
    LEAT_ASSIGN_OR_RETURN(const std::string_view text, TextOf(body));
    // A line of JSON has no quotes that matter here.
    LEAT_RETURN_IF_ERROR(AppendRecords(text, csv ? csv_ : stream::CsvDialect{.quote = '\0'}));
    if (batch_.size() == 0) return Status(Code::kInvalidArgument, "no event in the body");
    return Decode(csv ? *raw_ : *json_, false);
  }
  if (type == "application/octet-stream" || json_ == nullptr) {
    Append(body);
    return Decode(*raw_, true);
  }
  LEAT_ASSIGN_OR_RETURN(std::string_view text, TextOf(body));
  text = Trimmed(text);
  if (text.empty()) return Status(Code::kInvalidArgument, "no event in the body");
  if (text.front() != '[') {
    Append(text);
    return Decode(*json_, true);
  }
  LEAT_RETURN_IF_ERROR(AppendArray(text));
  if (batch_.size() == 0) return Status(Code::kInvalidArgument, "no event in the body");
  return Decode(*json_, false);
}

Result<EventReader::Events*> EventReader::ReadRecords(std::span<const std::string_view> records) {
  batch_.Restart(0, 0);
  if (records.size() > max_rows_) return TooMany(max_rows_);
  for (const std::string_view record : records) Append(record);
  return Decode(*raw_, false);
}

Status EventReader::CheckFeatures(std::span<const float> features) const {
  for (size_t i = 0; i < features.size(); ++i) {
    if (std::isfinite(features[i])) continue;
    return {Code::kInvalidArgument, "row " + std::to_string(i / features_) + ", feature " +
                                        std::to_string(i % features_) + " is not finite"};
  }
  for (const Ids& ids : ids_) {
    for (size_t row = 0; row * features_ < features.size(); ++row) {
      for (uint32_t k = 0; k < ids.count; ++k) {
        const float id = features[row * features_ + ids.first + k];
        if (id >= 0 && id < static_cast<float>(ids.below) && id == std::floor(id)) continue;
        return {Code::kInvalidArgument, "row " + std::to_string(row) + ": " + ids.field + ": " +
                                            std::to_string(id) + " is not a whole number from 0 to " +
                                            std::to_string(ids.below - 1)};
      }
    }
  }
  return {};
}

}  // namespace leat::serve

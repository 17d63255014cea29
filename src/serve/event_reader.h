// Turns the events of a request into rows, as the job's workers do with those of the stream.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job/job.h"
#include "stream/decode/decoder.h"

namespace leat::serve {

// Not thread-safe.
class EventReader {
 public:
  // `max_rows`: events of a request.
  EventReader(const job::Job& job, size_t max_rows);
  ~EventReader();

  struct Events {
    bool single = false;  // the request is an event, and not a list
    size_t count = 0;
    stream::DecodedRows rows;  // `index` and the offsets of `dead` count the events
  };
  // The body of /v1/predict. application/json: an event, or an array of events. application/x-ndjson: one
  // event a line. text/csv, of csv jobs: one event a record. application/octet-stream: one record as the
  // stream has it. Any other type: json, if the events of the job are or can be, else one record. Events have
  // no label; one that is there is ignored. kInvalidArgument: the body is none of these; kResourceExhausted:
  // too many events. The result is valid until the next call.
  Result<Events*> Read(std::string_view content_type, std::string_view body);
  // Records as the stream has them.
  Result<Events*> ReadRecords(std::span<const std::string_view> records);

  // Returns kInvalidArgument with the row and the feature if these are not what the decoder makes: not
  // finite, or not an id.
  Status CheckFeatures(std::span<const float> features) const;
  uint32_t features() const { return features_; }

 private:
  Result<Events*> Decode(stream::Decoder& decoder, bool single);
  void Append(std::string_view record);
  Status AppendArray(std::string_view body);
  Status AppendRecords(std::string_view body, const stream::CsvDialect& dialect);

  struct Ids {
    uint32_t first = 0, count = 0, below = 0;
    std::string field;
  };

  const stream::Schema::Format format_;
  const stream::CsvDialect csv_;
  const size_t max_rows_;
  uint32_t features_ = 0;
  std::vector<Ids> ids_;
  std::unique_ptr<stream::Decoder> json_;  // null: fields have no names
  std::unique_ptr<stream::Decoder> raw_;
  stream::RecordBatch batch_;
  Events events_;
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

// A text of a request without the byte order mark that it may begin with. kInvalidArgument: it is in UTF-16.
Result<std::string_view> TextOf(std::string_view body);

}  // namespace leat::serve

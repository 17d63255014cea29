// The bytes of a job's history on disk: a sequence of records, each with a length and a checksum
// (docs/formats/history.md). Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/bytes.h"
#include "show/history/history.h"

namespace leat::observe {

inline constexpr size_t kMaxRecordBytes = 1 << 20;

// The status of the job at a moment, as JSON.
struct StoredStatus {
  double time_s = 0;
  std::string json;
};
LEAT_FIELDS(StoredStatus, (time_s, NotNegative, AtMost(kLatest_s)), (json, AtMost(kMaxRecordBytes)));
struct CoarseSample {
  Sample sample;
};
LEAT_FIELDS(CoarseSample, (sample));
using Record = std::variant<Sample, CoarseSample, Event, StoredStatus>;
LEAT_KINDS(Record, (Sample, 1, "sample"), (CoarseSample, 2, "coarse"), (Event, 3, "event"),
           (StoredStatus, 4, "status"));

inline constexpr std::string_view kHistoryMagic = "LEATHIS2";
// A file has at most this beyond what makes it be written anew, and stays below 16 MiB.
inline constexpr size_t kMaxStatusBytes = kMaxRecordBytes / 2;

// A status that is larger than kMaxStatusBytes is left out.
void Append(const Record& record, ByteWriter* out);
// A whole file, in pieces: all that a reader needs to have the same history. Ends with the first failure of
// `write`.
Status Encode(const History& history, const StoredStatus& status,
              const std::function<Status(ByteView)>& write);

// Reads records one after the other from bytes that may be anything.
class RecordReader {
 public:
  // `bytes`: a file from its beginning, or after what another reader has read, with `begun`.
  explicit RecordReader(ByteView bytes, bool begun = false);
  // The next record; none at the end, or where the rest is incomplete or damaged.
  std::optional<Record> Next();
  size_t position() const { return position_; }  // after the last good record
  bool damaged() const { return damaged_; }      // there is more, and it cannot become a record

 private:
  ByteView bytes_;
  size_t position_ = 0;
  bool damaged_ = false;
};

// Adds a record to what it is part of.
void Apply(Record record, History* history, StoredStatus* status);

}  // namespace leat::observe

// The file `history` in a job's directory: a sequence of records, each with a length and a checksum
// (docs/formats/history.md). It is a help to people and no part of the job's state: what cannot be read is
// missing, and what cannot be written is dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "show/history/history.h"
#include "storage/checkpoint/file.h"

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

inline constexpr const char* kHistoryName = "history";

// Written by one process. Not thread-safe.
class HistoryWriter {
 public:
  // The file is written anew when it is larger than this. Its necessary content takes about 11 MiB at most.
  static constexpr size_t kMaxBytes = 15 << 20;

  // Replaces the file with the known history, so that another process which still has the former one open
  // does not write into this one's.
  static Result<HistoryWriter> Create(const std::string& directory, const History& history,
                                      const StoredStatus& status);

  // Not synced: a power cut may lose what was appended last.
  Status Append(ByteView records);
  // Whether the file is to be created anew: it is too large, or somebody has removed it. To be asked after
  // each Append. kStale: the file is another process's by now.
  Result<bool> Outdated() const;

 private:
  HistoryWriter(checkpoint::File file, uint64_t bytes) : file_(std::move(file)), bytes_(bytes) {}

  checkpoint::File file_;
  uint64_t bytes_;  // size of the file
};

// A job's past, read from its directory. Follows a file that grows, or is replaced. Not thread-safe.
class HistoryReader {
 public:
  explicit HistoryReader(std::string directory) : directory_(std::move(directory)) {}

  // Reads what has come since the last call. kNotFound: the directory has no history.
  // kDataLoss: damaged; what was read before is kept.
  Result<bool> Update();  // whether there was anything new

  const History& history() const { return history_; }
  const StoredStatus& status() const { return status_; }
  History TakeHistory() { return std::move(history_); }

 private:
  std::string directory_;
  std::optional<checkpoint::File> file_;
  uint64_t inode_ = 0;
  uint64_t read_ = 0;  // bytes of the file
  History history_;
  StoredStatus status_;
};

// Whether somebody still writes a history that is only read here. Clocks of hosts may differ, so what counts
// is that the file grows.
class HistoryGrowth {
 public:
  static constexpr Duration kSilence = std::chrono::seconds(10);  // a coordinator writes once a second

  // `age_s`: of the last sample, by this host's clock. Before the file has grown there is nothing better.
  HistoryGrowth(Time now, double age_s) : last_(now - (age_s > Seconds(kSilence) ? kSilence : Duration{})) {}
  void OnGrowth(Time now) { last_ = now; }
  bool live(Time now) const { return now - last_ < kSilence; }

 private:
  Time last_;
};

}  // namespace leat::observe

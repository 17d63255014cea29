// The file `history` in a job's directory. It is a help to people and no part of the job's state: what cannot
// be read is missing, and what cannot be written is dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "show/history/history.h"
#include "show/history/records.h"
#include "storage/checkpoint/file.h"

namespace leat::observe {

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

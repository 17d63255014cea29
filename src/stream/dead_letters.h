// Records that do not match the schema: stored with their location and the reason, and counted, so that a job
// with too many can be stopped.
//
// Each worker appends to its own file below the job's directory, one JSON object per line:
//   {"partition":0,"offset":991,"reason":"amount: 'abc' is not a number","record":"{\"amount\":\"abc\"}"}
// `record` is truncated at kMaxRecordBytes; bytes that are not UTF-8 are stored as "record_base64". Batches
// may be trained again after a failure, so a record can appear in several files or lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/files/descriptor.h"
#include "base/status.h"

namespace leat::stream {

// Not thread-safe.
class DeadLetterFile {
 public:
  static constexpr size_t kMaxRecordBytes = 1024;
  // The limit of all files in a directory, about: lines beyond it are dropped, so that a bad stream cannot
  // fill the disk, however many workers come and go. The caller still counts them.
  static constexpr uint64_t kMaxBytes = 64 << 20;

  // `directory`/`name`.jsonl. The first line creates both if necessary, private to their owner. `max_bytes`
  // is kMaxBytes except in tests.
  DeadLetterFile(std::string directory, const std::string& name, uint64_t max_bytes = kMaxBytes);

  // Writes one whole line with one system call: a kill tears at most the last line.
  Status Append(uint32_t partition, uint64_t offset, std::string_view reason, std::string_view record = {});

 private:
  Status Open();

  const std::string directory_, path_;
  const uint64_t max_bytes_;
  Descriptor fd_;
  uint64_t all_bytes_ = 0;  // bytes of all files: as they were at the last look, and lines since
  uint64_t next_look_ = 0;  // at this number of bytes, because others write, too
};

// Detects a share of bad events above a limit, over the last kWindow to 2 kWindow events. While there are
// fewer than kLeast, it counts kLeast, so that one bad record among the first ten does not stop a job. A
// share of so many that exceeds the limit by less than three standard deviations may be chance, and is not
// above it. Not thread-safe.
class DeadLetterRate {
 public:
  static constexpr uint64_t kWindow = 10'000;
  static constexpr uint64_t kLeast = 100;

  // 1: no limit.
  explicit DeadLetterRate(double limit) : limit_(limit) {}
  // Adds `events` events, of which `dead` were bad.
  void Count(uint64_t events, uint64_t dead);
  // True once any window was above the limit.
  bool exceeded() const { return exceeded_; }
  // At the end of a stream, however short it is.
  static bool Above(double limit, uint64_t events, uint64_t dead) {
    return static_cast<double>(dead) > limit * static_cast<double>(events);
  }
  // "990 of 1100 events (90 %); at most 10 % are allowed (train: max_dead_letter_rate)"
  static std::string Share(double limit, uint64_t events, uint64_t dead);
  // "12 % of the last 10112 events; at most 10 % are allowed"
  std::string Describe() const;

 private:
  double limit_;
  // The previous window and the current one; decisions use both.
  uint64_t events_[2] = {0, 0};
  uint64_t dead_[2] = {0, 0};
  uint64_t described_events_ = 0, described_dead_ = 0;
  bool exceeded_ = false;
};

}  // namespace leat::stream

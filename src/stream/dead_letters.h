// Records that did not fit the schema: kept with place and reason, counted, and a reason to stop when they
// are too many.
//
// Each worker appends to a file of its own below the job's directory, one JSON object a line:
//   {"partition":0,"offset":991,"reason":"amount: 'abc' is not a number","record":"{\"amount\":\"abc\"}"}
// `record` is cut at kMaxRecordBytes; bytes that are not UTF-8 text stand as "record_base64". A batch may be
// trained again after a death, so a record can be in several files or lines: ReadDeadLetters counts it once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace leat::stream {

// Not thread-safe.
class DeadLetterFile {
 public:
  static constexpr size_t kMaxRecordBytes = 1024;
  // Lines beyond this size of a file are not kept: a poisoned stream must not fill the disk. They are still
  // counted by the caller.
  static constexpr uint64_t kMaxFileBytes = 64 << 20;

  // Appends to `directory`/`name`.jsonl; makes both when they are not there.
  static Result<std::unique_ptr<DeadLetterFile>> Open(const std::string& directory, const std::string& name);
  ~DeadLetterFile();
  DeadLetterFile(const DeadLetterFile&) = delete;
  DeadLetterFile& operator=(const DeadLetterFile&) = delete;

  // One write of one whole line: a kill leaves at most the last line torn.
  Status Append(uint32_t partition, uint64_t offset, std::string_view reason, std::string_view record = {});

 private:
  DeadLetterFile(int fd, std::string path, uint64_t bytes) : fd_(fd), path_(std::move(path)), bytes_(bytes) {}
  int fd_;
  std::string path_;
  uint64_t bytes_;
};

struct DeadLetter {
  uint32_t partition = 0;
  uint64_t offset = 0;
  std::string reason;
  std::string record;  // as it was, at most kMaxRecordBytes
  friend bool operator==(const DeadLetter&, const DeadLetter&) = default;
};

// All that the workers' files in `directory` hold, each (partition, offset) once, in that order; torn lines
// are left out. At most `limit`.
Result<std::vector<DeadLetter>> ReadDeadLetters(const std::string& directory, size_t limit = 1'000'000);

// Whether more than a share of the last events were bad: of the last kWindow to 2 kWindow, and of kWindow
// while fewer have come, so that one bad record among the first ten does not stop a job. Not thread-safe.
class DeadLetterRate {
 public:
  static constexpr uint64_t kWindow = 10'000;

  // 1 = never.
  explicit DeadLetterRate(double limit) : limit_(limit) {}
  // Of the next `events` events `dead` were bad.
  void Count(uint64_t events, uint64_t dead);
  // True once any window was above the limit.
  bool exceeded() const { return exceeded_; }
  // "12 % of the last 10112 events; at most 10 % are allowed"
  std::string Describe() const;

 private:
  double limit_;
  // The window before and the one that fills now; a decision sees both.
  uint64_t events_[2] = {0, 0};
  uint64_t dead_[2] = {0, 0};
  uint64_t described_events_ = 0, described_dead_ = 0;
  bool exceeded_ = false;
};

}  // namespace leat::stream

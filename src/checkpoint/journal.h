// The journal: what the coordinator decided since the oldest checkpoint that is kept, in order
// (docs/formats/checkpoint.md).
//
//   file    = "leat-journal-2\n" 0:u8 record*
//   record  = length:u32 length_check:u32 payload checksum:u64 "leat"
//   payload = 1:u8 count:u32 cut*  |  2:u8 count:u32 (epoch:u32 offset:u64)*  |  3:u8 node:u64 lease:u64
//           | 4:u8 first_step:u64 needed:u32 count:u32 (cut words:u64*)*
//
// length_check is half the checksum of length, checksum that of payload; both are seeded with the record's
// offset, so a record counts only where it was written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "checkpoint/file.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::checkpoint {

inline constexpr const char* kJournalName = "journal";

struct JournalContents {
  std::vector<protocol::JournalRecord> records;
  uint64_t end = 0;   // of the last whole record: what is behind it is the torn one
  uint64_t size = 0;  // of the file
};

// An appended record reaches the disk by whole sectors. So a last record that a crash has torn is one that
// the file ends in, or of which everything from some sector on is still zero. Those are dropped; whatever
// else is not as it was written is kDataLoss, beginning with `path`. Pure.
Result<JournalContents> ParseJournal(ByteView file, const std::string& path);

// The same of the journal in a job's directory; kDataLoss when it is missing.
Result<JournalContents> ReadJournal(const std::string& directory);

// The parts, for tests and the fuzzer.
Bytes JournalHeader();
Bytes EncodeRecord(const protocol::JournalRecord& record, uint64_t offset);
Bytes EncodePayload(const protocol::JournalRecord& record);
Result<protocol::JournalRecord> DecodePayload(ByteView payload);

// The records that are still needed when every cut before `watermark` (by partition) is in all that may be
// restored: the later cuts, the rounds that have one, and the newest of each other kind.
std::vector<protocol::JournalRecord> Compact(std::vector<protocol::JournalRecord> records,
                                             const std::vector<protocol::Position>& watermark);

// Thread-compatible.
class Journal {
 public:
  // Makes an empty one, or replaces what is there by one.
  static Result<Journal> Create(const std::string& directory);
  // Cuts off a torn last record.
  static Result<Journal> Open(const std::string& directory);

  // On disk when it returns ok. When it could not be written, the journal is as it was; when that is not
  // known either, every later append fails.
  Status Append(const protocol::JournalRecord& record);
  Result<std::vector<protocol::JournalRecord>> Read() const;
  // All records at once, by a new file.
  Status Rewrite(const std::vector<protocol::JournalRecord>& records);

 private:
  Journal(std::string directory, File file, uint64_t end)
      : directory_(std::move(directory)), file_(std::move(file)), end_(end) {}

  std::string directory_;
  File file_;
  uint64_t end_ = 0;
  Status broken_;
};

}  // namespace leat::checkpoint

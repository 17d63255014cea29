// The journal: the coordinator's decisions since the oldest kept checkpoint, in order
// (docs/formats/checkpoint.md).
//
//   file    = "leat-journal-3\n" 0:u8 record* | … record* torn:bytes seal bytes*
//   record  = length:u32 length_check:u32 payload checksum:u64 "leat"
//   payload = a JournalRecord, as base/fields/codec.h writes it
//   seal    = "end-leat-journal" term:u64 checksum:u64
//
// A seal ends the journal, whatever its writer appends behind it. Its checksum is that of the 24 bytes before
// it. length_check is the lower half of the checksum of length, checksum that of payload. Both are seeded
// with the record's offset, so a record is valid only at its original offset.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/records/journal.h"
#include "storage/checkpoint/file.h"

namespace leat::checkpoint {

inline constexpr const char* kJournalName = "journal";

struct JournalContents {
  std::vector<protocol::JournalRecord> records;
  uint64_t end = 0;     // end of the last complete record; an incomplete one may follow
  bool sealed = false;  // a seal follows the records
};

// Records reach the disk in whole sectors. A last record torn by a crash is therefore cut off by the end of
// the file or by the seal, or zero from some sector on. It is dropped; any other damage is kDataLoss with a
// message that begins with `path`. Pure.
Result<JournalContents> ParseJournal(ByteView file, const std::string& path);

// Reads and parses the journal in a term's directory; kDataLoss if it is missing.
Result<JournalContents> ReadJournal(const std::string& directory);
// Ends the journal in a term's directory, which may still be open at its coordinator, and reads it: the seal
// is on disk, and nothing that is appended from now on is part of the journal.
Result<std::vector<protocol::JournalRecord>> SealJournal(const std::string& directory, uint64_t term);

// The encoding, for tests and the fuzzer.
Bytes JournalHeader();
Bytes EncodeRecord(const protocol::JournalRecord& record, uint64_t offset);
Bytes EncodePayload(const protocol::JournalRecord& record);
Result<protocol::JournalRecord> DecodePayload(ByteView payload);

// The records still needed if every state that may be restored has all cuts before `watermark` (by
// partition): later cuts, rounds with such a cut, spans of a raised learning rate that end later, label marks
// of later events, the last label mark of each partition, the newest start, ids and wanted numbers, and the
// membership.
std::vector<protocol::JournalRecord> Compact(std::vector<protocol::JournalRecord> records,
                                             const std::vector<protocol::Position>& watermark);

// Thread-compatible.
class Journal {
 public:
  // Creates a journal with these records, replacing an existing one.
  static Result<Journal> Create(const std::string& directory,
                                const std::vector<protocol::JournalRecord>& records = {});

  // All on disk when it returns ok. A failure adds none, and the call can be repeated. After a failed sync,
  // or if a partly written record cannot be cut off, the next call writes everything to a new file. kStale:
  // the journal was sealed before; nothing is part of it any more. Without records it finds out just that.
  Status Append(std::span<const protocol::JournalRecord> records);
  Status Append(const protocol::JournalRecord& record) { return Append(std::span(&record, 1)); }
  Result<std::vector<protocol::JournalRecord>> Read() const;
  // Replaces all records, by a new file; kStale as for Append.
  Status Rewrite(const std::vector<protocol::JournalRecord>& records);

 private:
  Journal(std::string directory, File file, uint64_t end)
      : directory_(std::move(directory)), file_(std::move(file)), end_(end) {}

  // Writes `bytes` to a new file, which takes the journal's name. If it has the name but that is not on disk,
  // the first `counted` bytes are the journal.
  Status Replace(ByteView bytes, uint64_t counted);
  // kStale unless `written` follows the records, and no other coordinator has claimed a term.
  Status ReadBack(ByteView written) const;

  std::string directory_;
  File file_;
  uint64_t end_ = 0;     // end of the appended records
  bool trusted_ = true;  // false: the file may differ from what was written
};

}  // namespace leat::checkpoint

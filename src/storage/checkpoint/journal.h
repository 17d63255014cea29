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
#include <optional>
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

// ---- terms
//
// The coordinators of a job, one after the other, in the job's directory (docs/formats/checkpoint.md).
//
//   term-000003/         of the newest coordinator: it was created by it, exclusively
//     journal            its journal; begins with what it has taken from the former one
//   term-000002.over/    of a former one
//   term-000002.copy/    of a coordinator with a directory of its own, which this one follows (standby/)
//
// A coordinator changes the directory by names in its own term's directory only: it renames new files from
// there, and files that it removes to there. A new coordinator renames that directory, after which the former
// one can do neither; then it seals the journal, to which the former one may still append, because that file
// is open. The former coordinator therefore changes nothing more, wherever it was stopped, and does not need
// to know about it.

struct Term {
  uint64_t number = 0;
  std::string directory;
  // All records of the former coordinator's journal; none if there was no such journal.
  std::optional<std::vector<protocol::JournalRecord>> former;
};

// Claims the next term for this process, or term `number`, if it is not 0: kStale if the directory has it or
// a higher one already. The former journal is kept until RemoveFormerTerms, which follows once this term has
// a journal with the same records. kDataLoss if the former journal is damaged, kStale if another coordinator
// claims a term meanwhile.
Result<Term> ClaimTerm(const std::string& directory, uint64_t number = 0);
// Makes the directory of a former coordinator, with its journal.
Status WriteFormerTerm(const std::string& directory, uint64_t number,
                       const std::vector<protocol::JournalRecord>& records);
// kStale if a term's directory has no longer its name, because another coordinator has taken over; else
// `status`.
Status UnlessReplaced(const std::string& term_directory, Status status);
// Best effort.
void RemoveFormerTerms(const std::string& directory, uint64_t current);

// Only reads. The directory with the journal of the newest coordinator that has one; kDataLoss if there is
// none.
Result<std::string> NewestTerm(const std::string& directory);

struct HighestTerm {
  uint64_t number = 0;  // 0: there is none
  bool copy = false;    // it is another coordinator's
};
// Only reads.
Result<HighestTerm> FindHighestTerm(const std::string& directory);
// Best effort: all terms' directories but the one with this name.
void RemoveOtherTerms(const std::string& directory, const std::string& kept);
// The name of a term's directory, "term-000003", and of that for a copy of another coordinator's journal.
std::string TermName(uint64_t term);
std::string CopyName(uint64_t term);

struct Claimed {
  uint64_t term = 0;
  bool ended = false;  // its coordinator has sealed its own journal, as the last thing that it did
};
// Only reads. The newest term that was claimed.
Result<Claimed> NewestClaimed(const std::string& directory);

}  // namespace leat::checkpoint

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
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/records/journal.h"

namespace leat::checkpoint {

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

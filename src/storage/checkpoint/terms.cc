#include "storage/checkpoint/terms.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/journal.h"

namespace leat::checkpoint {
namespace {

constexpr std::string_view kPrefix = "term-";
constexpr std::string_view kOver = ".over";
constexpr std::string_view kCopy = ".copy";
static_assert(kOver.size() == kCopy.size());
// Coordinators that start at the same time.
constexpr int kAttempts = 10;

struct Entry {
  uint64_t number = 0;
  bool over = false;
  bool copy = false;
  std::string name;
};

std::optional<Entry> Parse(std::string_view name) {
  Entry entry{
      .number = 0, .over = name.ends_with(kOver), .copy = name.ends_with(kCopy), .name = std::string(name)};
  if (entry.over || entry.copy) name.remove_suffix(kOver.size());
  if (!name.starts_with(kPrefix)) return std::nullopt;
  entry.number = ToNumber<uint64_t>(name.substr(kPrefix.size())).value_or(0);
  return TermName(entry.number) == name ? std::optional(std::move(entry)) : std::nullopt;
}

// By number, descending.
Result<std::vector<Entry>> TermFiles(const std::string& directory) {
  DIR* dir = opendir(directory.c_str());
  if (dir == nullptr) return SystemError(directory, "open", errno);
  std::vector<Entry> entries;
  while (const dirent* entry = readdir(dir)) {
    if (auto parsed = Parse(entry->d_name)) entries.push_back(std::move(*parsed));
  }
  closedir(dir);
  std::ranges::sort(entries, std::ranges::greater(), &Entry::number);
  return entries;
}

bool HasJournal(const std::string& directory, const Entry& entry) {
  return Exists(directory + "/" + entry.name + "/" + kJournalName);
}

// Creates the directory of the next term, or of this one. The entries are those of former ones.
Result<uint64_t> CreateNext(const std::string& directory, uint64_t wanted) {
  for (int attempt = 0;; ++attempt) {
    LEAT_ASSIGN_OR_RETURN(const std::vector<Entry> entries, TermFiles(directory));
    const uint64_t next = entries.empty() ? 1 : entries.front().number + 1;
    const uint64_t term = wanted == 0 ? next : wanted;
    const std::string path = directory + "/" + TermName(term);
    if (term < next) return Status(Code::kStale, path + ": there is a later term already");
    if (mkdir(path.c_str(), 0700) == 0) {
      LEAT_RETURN_IF_ERROR(SyncDirectory(directory));
      return term;
    }
    if (errno != EEXIST || attempt == kAttempts) return SystemError(path, "make directory", errno);
  }
}

// Renames the directories of the terms before `number` and returns the records of the newest that has a
// journal, after sealing it.
Result<std::optional<std::vector<protocol::JournalRecord>>> TakeFormer(const std::string& directory,
                                                                       uint64_t number) {
  LEAT_ASSIGN_OR_RETURN(std::vector<Entry> entries, TermFiles(directory));
  std::erase_if(entries, [&](const Entry& entry) { return entry.number >= number; });
  for (Entry& entry : entries) {
    if (entry.over || entry.copy) continue;
    const std::string over = entry.name + std::string(kOver);
    const Status renamed = RenameSynced(directory, entry.name, over);
    // Another coordinator that starts has done it.
    if (!renamed.ok() && !Exists(directory + "/" + over)) return renamed;
    entry.name = over;
  }
  const auto newest =
      std::ranges::find_if(entries, [&](const Entry& entry) { return HasJournal(directory, entry); });
  if (newest == entries.end()) return std::optional<std::vector<protocol::JournalRecord>>();
  LEAT_ASSIGN_OR_RETURN(auto records, SealJournal(directory + "/" + newest->name, number));
  return std::optional(std::move(records));
}

}  // namespace

Result<Term> ClaimTerm(const std::string& directory, uint64_t wanted) {
  LEAT_ASSIGN_OR_RETURN(const uint64_t number, CreateNext(directory, wanted));
  Term term{.number = number, .directory = directory + "/" + TermName(number), .former = {}};
  auto former = TakeFormer(directory, number);
  // Another one that claims the next term at the same time may have removed the former journal.
  if (!former.ok()) return UnlessReplaced(term.directory, former.status());
  term.former = std::move(*former);
  return term;
}

Status WriteFormerTerm(const std::string& directory, uint64_t number,
                       const std::vector<protocol::JournalRecord>& records) {
  const std::string path = directory + "/" + TermName(number);
  LEAT_RETURN_IF_ERROR(MakeDirectory(path));
  return Journal::Create(path, records).status();
}

Status UnlessReplaced(const std::string& term_directory, Status status) {
  if (Exists(term_directory)) return status;
  return {Code::kStale, term_directory + ": another coordinator has taken over"};
}

void RemoveFormerTerms(const std::string& directory, uint64_t current) {
  const auto entries = TermFiles(directory);
  if (!entries.ok()) return;
  for (const Entry& entry : *entries) {
    if ((entry.over || entry.copy) && entry.number < current)
      (void)RemoveFolder(directory + "/" + entry.name);
  }
}

Result<std::string> NewestTerm(const std::string& directory) {
  LEAT_ASSIGN_OR_RETURN(const std::vector<Entry> entries, TermFiles(directory));
  for (const Entry& entry : entries) {
    if (HasJournal(directory, entry)) return directory + "/" + entry.name;
  }
  return Status(Code::kDataLoss, directory + ": the journal is missing");
}

Result<HighestTerm> FindHighestTerm(const std::string& directory) {
  LEAT_ASSIGN_OR_RETURN(const std::vector<Entry> entries, TermFiles(directory));
  if (entries.empty()) return HighestTerm();
  return HighestTerm{entries.front().number, entries.front().copy};
}

void RemoveOtherTerms(const std::string& directory, const std::string& kept) {
  const auto entries = TermFiles(directory);
  if (!entries.ok()) return;
  for (const Entry& entry : *entries)
    if (entry.name != kept) (void)RemoveFolder(directory + "/" + entry.name);
}

std::string TermName(uint64_t term) {
  return Formatted("term-%06llu", static_cast<unsigned long long>(term));
}

std::string CopyName(uint64_t term) {
  return TermName(term) + std::string(kCopy);
}

Result<Claimed> NewestClaimed(const std::string& directory) {
  LEAT_ASSIGN_OR_RETURN(const std::vector<Entry> entries, TermFiles(directory));
  if (entries.empty()) return Status(Code::kNotFound, directory + ": there is no job in it");
  const Entry& newest = entries.front();
  Claimed claimed{.term = newest.number, .ended = false};
  if (newest.over || !HasJournal(directory, newest)) return claimed;
  const auto contents = ReadJournal(directory + "/" + newest.name);
  // A journal that was sealed by a takeover is in a directory that was renamed first. This one was sealed by
  // its own coordinator, at the end.
  claimed.ended = contents.ok() && contents->sealed && Exists(directory + "/" + newest.name);
  return claimed;
}

}  // namespace leat::checkpoint

#include "storage/checkpoint/journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include "base/fields/codec.h"
#include "base/text.h"
#include "protocol/guards.h"

namespace leat::checkpoint {
namespace {

using protocol::CutsMade;
using protocol::IdsReserved;
using protocol::JournalRecord;
using protocol::RateRaised;
using protocol::RoundMade;
using protocol::ScaleSet;
using protocol::StreamStart;

constexpr std::string_view kMagic("leat-journal-3\n\0", 16);
// Its first bytes cannot complete the end mark of a record that they cut off.
constexpr std::string_view kSealMagic("end-leat-journal");
constexpr std::string_view kEndMark = "leat";
constexpr uint64_t kHeadBytes = 8;
constexpr uint64_t kTailBytes = 12;
constexpr uint64_t kSector = 512;
constexpr uint64_t kMaxFile = uint64_t{1} << 32;

constexpr uint64_t kSealBytes = 32;

uint32_t LengthCheck(uint32_t length, uint64_t offset) {
  return static_cast<uint32_t>(Checksum(std::as_bytes(std::span(&length, 1)), offset));
}

// True if the bytes [at, end) were incompletely written in a crash: from a sector boundary inside them to the
// end of the file, everything is zero.
bool Unwritten(ByteView file, uint64_t at, uint64_t end) {
  uint64_t zeros = file.size();
  while (zeros > at && file[zeros - 1] == std::byte{0}) --zeros;
  if (zeros == at) return true;
  return (zeros + kSector - 1) / kSector * kSector < end;
}

// A whole file.
Bytes Encoded(const std::vector<JournalRecord>& records) {
  Bytes file = JournalHeader();
  for (const auto& record : records) {
    const Bytes bytes = EncodeRecord(record, file.size());
    file.insert(file.end(), bytes.begin(), bytes.end());
  }
  return file;
}

Bytes EncodeSeal(uint64_t term) {
  ByteWriter out;
  out.PutRaw(AsBytes(kSealMagic));
  out.Put(term);
  out.Put(Checksum(out.view()));
  return out.Take();
}

// Where the first seal begins, from `at` on.
std::optional<uint64_t> FindSeal(ByteView file, uint64_t at) {
  const ByteView magic = AsBytes(kSealMagic);
  for (auto from = file.begin() + static_cast<ptrdiff_t>(at);; ++from) {
    from = std::search(from, file.end(), magic.begin(), magic.end());
    if (file.end() - from < static_cast<ptrdiff_t>(kSealBytes)) return std::nullopt;
    const auto seal = file.subspan(static_cast<size_t>(from - file.begin()), kSealBytes);
    ByteReader in(seal.last(sizeof(uint64_t)));
    if (in.Get<uint64_t>() == Checksum(seal.first(kSealBytes - sizeof(uint64_t))))
      return static_cast<uint64_t>(from - file.begin());
  }
}

bool Before(const protocol::Cut& cut, const std::vector<protocol::Position>& watermark) {
  return cut.partition < watermark.size() && cut.next() <= watermark[cut.partition];
}

}  // namespace

Bytes JournalHeader() {
  const ByteView magic = AsBytes(kMagic);
  return Bytes(magic.begin(), magic.end());
}

Bytes EncodePayload(const JournalRecord& record) {
  return fields::Encode(record);
}

Result<JournalRecord> DecodePayload(ByteView payload) {
  return fields::Decode<JournalRecord>(payload, "its content");
}

Bytes EncodeRecord(const JournalRecord& record, uint64_t offset) {
  const Bytes payload = EncodePayload(record);
  const auto length = static_cast<uint32_t>(payload.size());
  ByteWriter out;
  out.Put(length);
  out.Put(LengthCheck(length, offset));
  out.PutRaw(payload);
  out.Put(Checksum(payload, offset));
  out.PutRaw(AsBytes(kEndMark));
  return out.Take();
}

namespace {

// Appends the record at `at`. Returns its end, or none if it is torn.
Result<std::optional<uint64_t>> ParseRecord(ByteView file, uint64_t at, const std::string& path,
                                            std::vector<JournalRecord>* records) {
  const auto damaged = [&](const std::string& why) {
    return Status(Code::kDataLoss, path + ": record at byte " + std::to_string(at) + ": " + why);
  };
  const std::optional<uint64_t> torn;
  if (file.size() - at < kHeadBytes) return torn;
  ByteReader in(file.subspan(at));
  const auto length = in.Get<uint32_t>();
  if (in.Get<uint32_t>() != LengthCheck(length, at)) {
    if (Unwritten(file, at, at + kHeadBytes)) return torn;
    return damaged("its length " + std::to_string(length) + " is not what was written");
  }
  if (in.remaining() < length + kTailBytes) return torn;
  const uint64_t end = at + kHeadBytes + length + kTailBytes;
  const ByteView payload = in.GetRaw(length);
  const auto checksum = in.Get<uint64_t>();
  if (checksum != Checksum(payload, at) || AsText(in.GetRaw(kEndMark.size())) != kEndMark) {
    if (end == file.size() && Unwritten(file, at, end)) return torn;
    return damaged("its " + std::to_string(length) + " bytes are not what was written");
  }
  auto record = DecodePayload(payload);
  if (!record.ok()) return damaged(record.status().message());
  records->push_back(std::move(*record));
  return std::optional(end);
}

}  // namespace

Result<JournalContents> ParseJournal(ByteView file, const std::string& path) {
  if (file.size() < kMagic.size() || AsText(file.first(kMagic.size())) != kMagic) {
    return Status(Code::kDataLoss, path + ": is not a journal (wrong first bytes)");
  }
  JournalContents contents;
  contents.end = kMagic.size();
  while (contents.end < file.size()) {
    const auto end = ParseRecord(file, contents.end, path, &contents.records);
    if (end.ok() && *end) {
      contents.end = **end;
      continue;
    }
    // Its writer may have been in the middle of a record when the journal was sealed.
    const auto seal = contents.sealed ? std::nullopt : FindSeal(file, contents.end);
    if (!seal) {
      LEAT_RETURN_IF_ERROR(end.status());
      break;
    }
    contents.sealed = true;
    file = file.first(*seal);
  }
  return contents;
}

std::vector<JournalRecord> Compact(std::vector<JournalRecord> records,
                                   const std::vector<protocol::Position>& watermark) {
  protocol::DropMarksBefore(watermark, &records);
  protocol::DropReplaced(&records);
  std::optional<JournalRecord> start;
  std::optional<JournalRecord> nodes;
  std::optional<JournalRecord> scale;
  std::vector<JournalRecord> rest;
  for (auto& record : records) {
    if (auto* made = std::get_if<CutsMade>(&record)) {
      std::erase_if(made->cuts, [&](const protocol::Cut& cut) { return Before(cut, watermark); });
      if (!made->cuts.empty()) rest.push_back(std::move(record));
    } else if (const auto* round = std::get_if<RoundMade>(&record)) {
      // A round is kept as a whole, because its steps need all its lanes.
      const bool over = std::ranges::all_of(
          round->lanes, [&](const RoundMade::Lane& part) { return Before(part.cut, watermark); });
      if (!over) rest.push_back(std::move(record));
    } else if (const auto* raised = std::get_if<RateRaised>(&record)) {
      if (!raised->Before(watermark)) rest.push_back(std::move(record));
    } else if (std::holds_alternative<StreamStart>(record)) {
      start = std::move(record);
    } else if (std::holds_alternative<IdsReserved>(record)) {
      nodes = std::move(record);
    } else if (std::holds_alternative<ScaleSet>(record)) {
      scale = std::move(record);
    } else {
      rest.push_back(std::move(record));
    }
  }
  protocol::DropUnusedLanes(&rest);
  std::vector<JournalRecord> kept;
  if (start) kept.push_back(std::move(*start));
  if (nodes) kept.push_back(std::move(*nodes));
  if (scale) kept.push_back(std::move(*scale));
  std::move(rest.begin(), rest.end(), std::back_inserter(kept));
  return kept;
}

Result<JournalContents> ReadJournal(const std::string& directory) {
  const std::string path = directory + "/" + kJournalName;
  const auto bytes = ReadFile(path, kMaxFile);
  if (bytes.status().code() == Code::kNotFound) return Status(Code::kDataLoss, path + ": is missing");
  LEAT_RETURN_IF_ERROR(bytes.status());
  return ParseJournal(*bytes, path);
}

Result<std::vector<JournalRecord>> SealJournal(const std::string& directory, uint64_t term) {
  {
    LEAT_ASSIGN_OR_RETURN(File file, File::Open(directory + "/" + kJournalName, O_RDWR | O_APPEND));
    LEAT_RETURN_IF_ERROR(file.Write(EncodeSeal(term)));
    LEAT_RETURN_IF_ERROR(file.Sync());
  }
  LEAT_ASSIGN_OR_RETURN(JournalContents contents, ReadJournal(directory));
  return std::move(contents.records);
}

Result<Journal> Journal::Create(const std::string& directory, const std::vector<JournalRecord>& records) {
  const Bytes bytes = Encoded(records);
  LEAT_RETURN_IF_ERROR(ReplaceFile(directory, kJournalName, bytes));
  LEAT_ASSIGN_OR_RETURN(File file, File::Open(directory + "/" + kJournalName, O_RDWR | O_APPEND));
  return Journal(directory, std::move(file), bytes.size());
}

Status Journal::Append(std::span<const JournalRecord> records) {
  Bytes bytes;
  for (const auto& record : records) {
    const Bytes encoded = EncodeRecord(record, end_ + bytes.size());
    if (encoded.size() > protocol::kMaxRecordBytes || end_ + bytes.size() + encoded.size() > kMaxFile) {
      return Status(Code::kResourceExhausted, file_.path() + ": a record of " +
                                                  std::to_string(encoded.size()) + " bytes behind " +
                                                  std::to_string(end_ + bytes.size()));
    }
    bytes.insert(bytes.end(), encoded.begin(), encoded.end());
  }
  if (!trusted_) {
    // The records before `end_` were synced before the failure; Read checks them.
    LEAT_RETURN_IF_ERROR(Read().status());
    Bytes all(end_);
    LEAT_RETURN_IF_ERROR(file_.ReadAt(0, all));
    all.insert(all.end(), bytes.begin(), bytes.end());
    return Replace(all, end_);
  }
  // Appended to the end of the file, wherever that is.
  if (const Status status = file_.WriteAt(end_, bytes); !status.ok()) {
    // Cuts off what was written in part, so that the next record does not follow invalid bytes. If the
    // journal was sealed meanwhile, the seal may be cut off, too; then the file has another name.
    trusted_ = file_.Truncate(end_).ok();
    LEAT_RETURN_IF_ERROR(ReadBack({}));
    return status;
  }
  if (const Status status = bytes.empty() ? Status() : file_.Sync(); !status.ok()) {
    // The system may have dropped the pages, and a second sync would not reveal it.
    trusted_ = false;
    return status;
  }
  LEAT_RETURN_IF_ERROR(ReadBack(bytes));
  end_ += bytes.size();
  return {};
}

Status Journal::ReadBack(ByteView written) const {
  struct stat mine, named;
  if (fstat(file_.fd(), &mine) != 0) return SystemError(file_.path(), "stat", errno);
  // A new coordinator renames the directory first, and then reads the file.
  const bool found = stat(file_.path().c_str(), &named) == 0;
  if (!found && errno != ENOENT && errno != ENOTDIR) return SystemError(file_.path(), "stat", errno);
  bool sealed = !found || mine.st_dev != named.st_dev || mine.st_ino != named.st_ino;
  const auto size = static_cast<uint64_t>(mine.st_size);
  if (!sealed && size > end_) {
    Bytes there(size - end_);
    LEAT_RETURN_IF_ERROR(file_.ReadAt(end_, there));
    sealed = written.empty() ? FindSeal(there, 0).has_value()
                             : there.size() < written.size() ||
                                   !std::equal(written.begin(), written.end(), there.begin());
  }
  if (protocol::guards::Unsealed(sealed)) return {};
  return {Code::kStale, file_.path() + ": another coordinator has taken over"};
}

Result<std::vector<JournalRecord>> Journal::Read() const {
  Bytes bytes(end_);
  LEAT_RETURN_IF_ERROR(file_.ReadAt(0, bytes));
  LEAT_ASSIGN_OR_RETURN(JournalContents contents, ParseJournal(bytes, file_.path()));
  if (contents.end != end_) {
    return Status(Code::kDataLoss, file_.path() + ": record at byte " + std::to_string(contents.end) +
                                       " is damaged, but was complete before");
  }
  return std::move(contents.records);
}

Status Journal::Rewrite(const std::vector<JournalRecord>& records) {
  const Bytes bytes = Encoded(records);
  return Replace(bytes, bytes.size());
}

Status Journal::Replace(ByteView bytes, uint64_t counted) {
  LEAT_RETURN_IF_ERROR(ReadBack({}));
  const std::string temporary = std::string(kJournalName) + ".tmp";
  const std::string path = directory_ + "/" + temporary;
  const Status status = [&]() -> Status {
    LEAT_ASSIGN_OR_RETURN(File file, File::Open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND));
    LEAT_RETURN_IF_ERROR(file.Write(bytes));
    LEAT_RETURN_IF_ERROR(file.Sync());
    LEAT_RETURN_IF_ERROR(Rename(directory_, temporary, kJournalName));
    file.set_path(file_.path());
    file_ = std::move(file);
    end_ = counted;
    trusted_ = false;
    LEAT_RETURN_IF_ERROR(SyncDirectory(directory_));
    end_ = bytes.size();
    trusted_ = true;
    return {};
  }();
  if (!status.ok()) unlink(path.c_str());
  return status;
}

// ---- terms

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

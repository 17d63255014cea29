#include "storage/checkpoint/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>

#include "base/encoding/printable.h"
#include "base/path/paths.h"
#include "base/text.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/journal.h"
#include "storage/checkpoint/manifest.h"
#include "storage/checkpoint/shard.h"

namespace leat::checkpoint {
namespace {

using protocol::Manifest;

constexpr const char* kJob = "job.yaml";
constexpr const char* kManifest = kManifestName;
constexpr const char* kCoordinator = "coordinator";
constexpr const char* kRun = "run";
constexpr std::string_view kDirectoryPrefix = "checkpoint-";
constexpr std::string_view kAsideSuffix = ".damaged";
constexpr uint64_t kMaxJob = 4 << 20;
constexpr uint64_t kMaxManifest = 256 << 20;
constexpr uint64_t kJournalRoom = 1 << 20;  // a checkpoint leaves this much to the journal

// The first line of job.yaml, a comment in YAML.
constexpr std::string_view kJobChecksum = "# checksum ";

std::string JobChecksum(std::string_view yaml) {
  return std::string(kJobChecksum) + ToHex(Checksum(AsBytes(yaml))) + "\n";
}

std::string ManifestPath(const std::string& directory, uint64_t id) {
  return directory + "/" + CheckpointName(id) + "/" + kManifest;
}

// Renames a file from or to the directory of this coordinator's term, durably for `directory`.
Status Move(const std::string& from, const std::string& to, const std::string& directory,
            const std::string& term) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return SyncDirectory(directory);
  return UnlessReplaced(term, SystemError(to, "rename", errno));
}

// The manifest first, so that an interrupted removal leaves an incomplete checkpoint.
Status RemoveCheckpoint(const std::string& path, const std::string& term) {
  const std::string removed = term + "/removed.json";
  const Status status = Move(path + "/" + kManifest, removed, path, term);
  if (!status.ok() && status.code() != Code::kNotFound) return status;
  unlink(removed.c_str());
  return RemoveFolder(path);
}

Result<Manifest> ReadManifestOf(const std::string& directory, uint64_t id) {
  const std::string name = CheckpointName(id);
  const std::string path = ManifestPath(directory, id);
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, ReadFile(path, kMaxManifest));
  LEAT_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(bytes, path));
  if (manifest.id != id || manifest.directory != name) {
    return Status(Code::kDataLoss, path + ": is that of checkpoint " + std::to_string(manifest.id) + " in '" +
                                       manifest.directory + "'");
  }
  return manifest;
}

// The size of all files in it.
uint64_t BytesIn(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    const uint64_t size = it->file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

using CheckShard = Status (*)(const std::string& path, const protocol::ManifestShard& shard);

Status HasItsSize(const std::string& path, const protocol::ManifestShard& shard) {
  return CheckSize(path, shard.bytes);
}
Status IsWhatWasWritten(const std::string& path, const protocol::ManifestShard& shard) {
  return VerifyFile(path, shard.bytes, shard.checksum);
}

Result<Manifest> ReadCheckpoint(const std::string& directory, uint64_t id, CheckShard check) {
  LEAT_ASSIGN_OR_RETURN(Manifest manifest, ReadManifestOf(directory, id));
  for (const auto& shard : manifest.shards)
    LEAT_RETURN_IF_ERROR(check(directory + "/" + manifest.directory + "/" + shard.file, shard));
  return manifest;
}

// Replaces a run number that is damaged or missing; members of the former coordinator then join again.
Result<uint32_t> ReadOrMakeRun(const std::string& directory) {
  const auto known = ReadRun(directory);
  if (known.ok() && *known != 0) return known;
  if (!known.ok() && known.status().code() != Code::kDataLoss) return known;
  const uint32_t run = std::random_device{}() | 1;
  LEAT_RETURN_IF_ERROR(WriteRun(directory, run));
  return run;
}

class DirectoryStore final : public Store {
 public:
  DirectoryStore(std::string directory, std::optional<File> lock, uint32_t run, const Term& term,
                 Journal journal)
      : directory_(std::move(directory)),
        lock_(std::move(lock)),
        run_(run),
        term_(term.number),
        term_directory_(term.directory),
        journal_(std::move(journal)) {}

  const std::string& directory() const override { return directory_; }
  uint64_t term() const override { return protocol::MakeTerm(run_, term_); }

  Status WriteJob(const std::string& yaml) override { return checkpoint::WriteJob(directory_, yaml); }

  Result<std::string> ReadJob() const override { return checkpoint::ReadJob(directory_); }
  Result<std::vector<protocol::JournalRecord>> ReadJournal() const override { return journal_.Read(); }
  Result<protocol::RecoveredState> Restore(const std::vector<DamagedCheckpoint>& damaged) const override;

  Status SetAside(uint64_t id) override {
    LEAT_RETURN_IF_ERROR(UnlessReplaced(term_directory_, Status()));
    return RenameSynced(directory_, CheckpointName(id), AsideName(id));
  }

  Status AppendJournal(std::span<const protocol::JournalRecord> records) override {
    const Status status = journal_.Append(records);
    if (status.code() != Code::kResourceExhausted || !MakeRoom(directory_, 0).ok()) return status;
    return journal_.Append(records);
  }

  Status End() override { return SealJournal(term_directory_, term_).status(); }

  Result<protocol::CheckpointOrder> Prepare(uint64_t id, uint64_t bytes) override {
    const std::string path = directory_ + "/" + CheckpointName(id);
    if (Exists(path + "/" + kManifest)) {
      return Status(Code::kFailedPrecondition, path + ": there is a complete checkpoint already");
    }
    LEAT_RETURN_IF_ERROR(Remove(id));
    LEAT_RETURN_IF_ERROR(MakeRoom(path, bytes));
    if (mkdir(path.c_str(), 0700) != 0) return SystemError(path, "make directory", errno);
    LEAT_RETURN_IF_ERROR(SyncDirectory(directory_));
    return protocol::CheckpointOrder{id, path};
  }

  Status Commit(const Manifest& manifest) override;

  Status Remove(uint64_t id) override {
    return RemoveCheckpoint(directory_ + "/" + CheckpointName(id), term_directory_);
  }

  Status DropCheckpoints(uint64_t oldest_kept) override {
    LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> complete, CompleteCheckpoints(directory_));
    const uint64_t newest = complete.empty() ? 0 : complete.back();
    LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, ListCheckpoints(directory_));
    for (const uint64_t id : ids) {
      const bool incomplete = std::ranges::find(complete, id) == complete.end();
      if (id < oldest_kept || (incomplete && id < newest)) LEAT_RETURN_IF_ERROR(Remove(id));
    }
    return SyncDirectory(directory_);
  }

  Status CompactJournal(const std::vector<protocol::Position>& watermark) override {
    LEAT_ASSIGN_OR_RETURN(auto records, journal_.Read());
    return journal_.Rewrite(Compact(std::move(records), watermark));
  }

 private:
  Status MakeRoom(const std::string& path, uint64_t bytes);

  std::string directory_;
  std::optional<File> lock_;  // held for the lifetime of this object; none: by the one that was replaced
  uint32_t run_;
  uint64_t term_;  // without the run
  std::string term_directory_;
  Journal journal_;
};

Status DirectoryStore::MakeRoom(const std::string& path, uint64_t bytes) {
  struct statvfs disk;
  if (statvfs(directory_.c_str(), &disk) != 0 || disk.f_blocks == 0) return {};  // unknown: no check
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  const uint64_t needed = bytes + kJournalRoom;
  if (free >= needed) return {};
  LEAT_ASSIGN_OR_RETURN(std::vector<uint64_t> old, CompleteCheckpoints(directory_));
  if (!old.empty()) old.pop_back();
  uint64_t freed = 0;
  size_t count = 0;
  for (; count < old.size() && free + freed < needed; ++count)
    freed += BytesIn(directory_ + "/" + CheckpointName(old[count]));
  if (free + freed < needed) {
    return Status(Code::kResourceExhausted, path + ": needs " + std::to_string((needed >> 20) + 1) +
                                                " MiB, the disk has " + std::to_string(free >> 20) +
                                                " MiB free");
  }
  for (size_t i = 0; i < count; ++i) LEAT_RETURN_IF_ERROR(Remove(old[i]));
  return {};
}

Status DirectoryStore::Commit(const Manifest& manifest) {
  // The one that was replaced may have ended by now.
  if (!lock_) {
    if (auto lock = LockDirectory(directory_); lock.ok()) lock_ = std::move(*lock);
  }
  if (manifest.directory != CheckpointName(manifest.id)) {
    return Status(Code::kInvalidArgument,
                  "checkpoint " + std::to_string(manifest.id) + " in '" + manifest.directory + "'");
  }
  const std::string path = directory_ + "/" + manifest.directory;
  for (const auto& shard : manifest.shards) {
    if (!IsPlainName(shard.file)) {
      return Status(Code::kInvalidArgument, "'" + shard.file + "' is not a valid name of a shard");
    }
    LEAT_RETURN_IF_ERROR(CheckSize(path + "/" + shard.file, shard.bytes));
  }
  const std::string text = EncodeManifest(manifest);
  // Verifies that the manifest can be parsed.
  const auto again = ParseManifest(AsBytes(text), path + "/" + kManifest);
  if (!again.ok()) return Status(Code::kInvalidArgument, again.status().message());
  const std::string written = term_directory_ + "/" + kManifest;
  const Status status = [&]() -> Status {
    LEAT_ASSIGN_OR_RETURN(File file, File::Open(written, O_WRONLY | O_CREAT | O_TRUNC));
    LEAT_RETURN_IF_ERROR(file.Write(AsBytes(text)));
    LEAT_RETURN_IF_ERROR(file.Sync());
    LEAT_RETURN_IF_ERROR(SyncDirectory(term_directory_));
    return Move(written, path + "/" + kManifest, path, term_directory_);
  }();
  if (status.ok()) return status;
  unlink(written.c_str());
  return UnlessReplaced(term_directory_, status);
}

Result<protocol::RecoveredState> DirectoryStore::Restore(
    const std::vector<DamagedCheckpoint>& damaged) const {
  protocol::RecoveredState restored;
  LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> all, ListCheckpoints(directory_));
  LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> aside, ListCheckpoints(directory_, kAsideSuffix));
  if (!all.empty()) restored.last_checkpoint = all.back();
  if (!aside.empty()) restored.last_checkpoint = std::max(restored.last_checkpoint, aside.back());
  LEAT_ASSIGN_OR_RETURN(std::vector<uint64_t> usable, CompleteCheckpoints(directory_));
  std::erase_if(usable,
                [&](uint64_t id) { return std::ranges::count(damaged, id, &DamagedCheckpoint::id) > 0; });
  if (!usable.empty()) {
    LEAT_ASSIGN_OR_RETURN(restored.manifest, ReadCheckpoint(directory_, usable.back(), HasItsSize));
  }
  // Older ones may take its place.
  for (const uint64_t id : usable) {
    const auto older = ReadManifestOf(directory_, id);
    if (!older.ok()) continue;
    restored.oldest_watermark = older->watermark;
    break;
  }
  LEAT_ASSIGN_OR_RETURN(restored.journal, journal_.Read());
  return restored;
}

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const std::string& directory, bool resume, bool take_over,
                                           uint64_t number) {
  LEAT_ASSIGN_OR_RETURN(std::string path, AbsolutePath(directory));
  path = std::filesystem::path(path).lexically_normal().string();
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  const auto no_job = [&] { return Status(Code::kNotFound, path + ": there is no job in it"); };
  if (resume && !Exists(path)) return no_job();
  LEAT_RETURN_IF_ERROR(MakeDirectory(path));
  if (access(path.c_str(), W_OK | X_OK) != 0) return SystemError(path, "write", errno);
  auto locked = LockDirectory(path);
  if (!locked.ok() && (locked.status().code() != Code::kFailedPrecondition || !take_over))
    return locked.status();
  std::optional<File> lock;
  if (locked.ok()) lock = std::move(*locked);
  LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> checkpoints, ListCheckpoints(path));
  const bool has_job = Exists(path + "/" + kJob);
  if (resume && !has_job) return no_job();
  if (!resume && (has_job || !checkpoints.empty())) {
    return Status(Code::kFailedPrecondition,
                  path + ": has a job already; resume it or name another directory");
  }
  LEAT_ASSIGN_OR_RETURN(const uint32_t run, ReadOrMakeRun(path));
  // From here on a former coordinator completes and removes nothing.
  LEAT_ASSIGN_OR_RETURN(Term term, ClaimTerm(path, number));
  if (!resume) term.former.emplace();
  if (!term.former) return Status(Code::kDataLoss, path + ": the journal is missing");
  if (resume) {
    // Checkpoints that a former run left incomplete are removed.
    LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> found, ListCheckpoints(path));
    LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> complete, CompleteCheckpoints(path));
    for (const uint64_t id : found) {
      if (std::ranges::find(complete, id) == complete.end())
        LEAT_RETURN_IF_ERROR(RemoveCheckpoint(path + "/" + CheckpointName(id), term.directory));
    }
  }
  auto journal = Journal::Create(term.directory, *term.former);
  if (!journal.ok()) return UnlessReplaced(term.directory, journal.status());
  RemoveFormerTerms(path, term.number);
  return std::unique_ptr<Store>(
      new DirectoryStore(std::move(path), std::move(lock), run, term, std::move(*journal)));
}

Result<File> LockDirectory(const std::string& directory) {
  const std::string path = directory + "/" + kLock;
  LEAT_ASSIGN_OR_RETURN(File file, File::Open(path, O_RDWR | O_CREAT));
  if (flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError(path, "lock", errno);
    std::string holder(32, '\0');
    const ssize_t n = pread(file.fd(), holder.data(), holder.size(), 0);
    holder.resize(n > 0 ? static_cast<size_t>(n) : 0);
    while (!holder.empty() && holder.back() == '\n') holder.pop_back();
    return Status(Code::kFailedPrecondition, directory + ": is in use by process " + holder);
  }
  LEAT_RETURN_IF_ERROR(file.Truncate(0));
  LEAT_RETURN_IF_ERROR(file.WriteAt(0, AsBytes(std::to_string(getpid()) + "\n")));
  return file;
}

Status WriteJob(const std::string& directory, const std::string& yaml) {
  if (yaml.size() > kMaxJob) {
    return Status(Code::kInvalidArgument,
                  "a job of " + std::to_string(yaml.size()) + " bytes, at most " + std::to_string(kMaxJob));
  }
  const std::string text = JobChecksum(yaml) + yaml;
  return ReplaceFile(directory, kJob, AsBytes(text));
}

namespace {

// A number in hexadecimal digits and the end of a line; 0: there is none.
template <class Number>
Result<Number> ReadNumber(const std::string& directory, const char* name) {
  const std::string path = directory + "/" + name;
  const auto file = ReadFile(path, 64);
  if (file.status().code() == Code::kNotFound) return Number{0};
  LEAT_RETURN_IF_ERROR(file.status());
  const std::string_view text = AsText(*file);
  if (const auto number = ToNumber<Number>(text.substr(0, text.find('\n')), 16);
      number.value_or(0) != 0 && text.find('\n') != text.npos)
    return *number;
  return Status(Code::kDataLoss, path + ": is not a number");
}

Status WriteNumber(const std::string& directory, const char* name, uint64_t number, int digits) {
  return ReplaceFile(directory, name,
                     AsBytes(Formatted("%0*llx\n", digits, static_cast<unsigned long long>(number))));
}

}  // namespace

Result<uint32_t> ReadRun(const std::string& directory) {
  return ReadNumber<uint32_t>(directory, kRun);
}

Status WriteRun(const std::string& directory, uint32_t run) {
  return WriteNumber(directory, kRun, run, 8);
}

Result<uint64_t> CoordinatorNumber(const std::string& directory) {
  LEAT_ASSIGN_OR_RETURN(uint64_t number, ReadNumber<uint64_t>(directory, kCoordinator));
  if (number != 0) return number;
  std::random_device random;
  number = uint64_t{random()} << 32 | random() | 1;
  LEAT_RETURN_IF_ERROR(WriteNumber(directory, kCoordinator, number, 16));
  return number;
}

std::string CheckpointName(uint64_t id) {
  return Formatted("checkpoint-%06llu", static_cast<unsigned long long>(id));
}

std::optional<uint64_t> CheckpointId(std::string_view name) {
  const auto id = ToNumber<uint64_t>(name.substr(std::min(kDirectoryPrefix.size(), name.size())));
  return id && CheckpointName(*id) == name ? id : std::nullopt;
}

Result<std::vector<uint64_t>> ListCheckpoints(const std::string& directory, std::string_view suffix) {
  DIR* dir = opendir(directory.c_str());
  if (dir == nullptr) return SystemError(directory, "open", errno);
  std::vector<uint64_t> ids;
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(suffix)) continue;
    if (const auto id = CheckpointId(name.substr(0, name.size() - suffix.size()))) ids.push_back(*id);
  }
  closedir(dir);
  std::ranges::sort(ids);
  return ids;
}

Result<std::vector<uint64_t>> CompleteCheckpoints(const std::string& directory) {
  LEAT_ASSIGN_OR_RETURN(std::vector<uint64_t> ids, ListCheckpoints(directory));
  std::erase_if(ids, [&](uint64_t id) { return !Exists(ManifestPath(directory, id)); });
  return ids;
}

Result<std::string> ReadJob(const std::string& directory) {
  const std::string path = directory + "/" + kJob;
  auto bytes = ReadFile(path, kMaxJob + 1024);
  if (bytes.status().code() == Code::kNotFound) {
    return Status(Code::kNotFound, directory + ": there is no job in it");
  }
  LEAT_RETURN_IF_ERROR(bytes.status());
  const std::string text(AsText(*bytes));
  const size_t head = JobChecksum("").size();
  const std::string yaml = text.size() < head ? "" : text.substr(head);
  if (!text.starts_with(kJobChecksum)) {
    return Status(Code::kDataLoss, path +
                                       ": its first line has no checksum; this is a job file and no job's "
                                       "directory, or the file is damaged");
  }
  if (text.compare(0, head, JobChecksum(yaml)) != 0) {
    return Status(Code::kDataLoss,
                  path + ": its " + std::to_string(yaml.size()) +
                      " bytes are not what was written: their checksum is not in the first line");
  }
  return yaml;
}

std::string AsideName(uint64_t id) {
  return CheckpointName(id) + std::string(kAsideSuffix);
}

std::string NoneLeft(const std::vector<DamagedCheckpoint>& damaged, const std::string& last) {
  std::string text;
  for (const DamagedCheckpoint& one : damaged) text += protocol::PassedOver(one.why);
  return text + last;
}

std::string UsedInstead(const IntactCheckpoint& found) {
  if (found.damaged.empty() || !found.manifest) return "";
  std::string text;
  for (const DamagedCheckpoint& one : found.damaged) text += one.why.message() + "; ";
  return text + "checkpoint " + std::to_string(found.manifest->id) + " is used instead";
}

Result<protocol::Manifest> ReadNewest(const std::string& directory) {
  LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> complete, CompleteCheckpoints(directory));
  if (complete.empty()) return Status(Code::kNotFound, directory + ": there is no complete checkpoint");
  return ReadManifestOf(directory, complete.back());
}

Result<IntactCheckpoint> ReadIntact(const std::string& directory) {
  IntactCheckpoint found;
  LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> complete, CompleteCheckpoints(directory));
  for (auto id = complete.rbegin(); id != complete.rend(); ++id) {
    auto manifest = ReadCheckpoint(directory, *id, IsWhatWasWritten);
    if (manifest.ok()) {
      found.manifest = std::move(*manifest);
      return found;
    }
    // The job may be running: newer checkpoints have taken the place of those listed above.
    if (!Exists(ManifestPath(directory, *id))) return ReadIntact(directory);
    if (manifest.status().code() != Code::kDataLoss) return manifest.status();
    found.damaged.push_back({*id, manifest.status()});
  }
  if (found.damaged.empty()) return found;
  return Status(Code::kDataLoss, NoneLeft(found.damaged, "there is none"));
}

Status VerifyCheckpoint(const std::string& directory, uint64_t id) {
  const Status status = ReadCheckpoint(directory, id, IsWhatWasWritten).status();
  // The checkpoint was complete: a file that is gone is damage.
  return status.code() == Code::kNotFound ? Status(Code::kDataLoss, status.message()) : status;
}

Result<IntactCheckpoint> Verify(const std::string& directory) {
  LEAT_RETURN_IF_ERROR(ReadJob(directory).status());
  LEAT_ASSIGN_OR_RETURN(const std::string term, NewestTerm(directory));
  LEAT_RETURN_IF_ERROR(ReadJournal(term).status());
  return ReadIntact(directory);
}

Result<std::vector<std::vector<float>>> ReadVariables(const std::string& directory,
                                                      const protocol::Manifest& manifest,
                                                      const protocol::SliceTable& table) {
  std::vector<std::vector<float>> variables;
  for (const auto& variable : table.variables) {
    variables.emplace_back(static_cast<size_t>(variable.shape.elements()));
  }
  const std::string path = directory + "/" + manifest.directory;
  std::vector<bool> read(table.slices.size());
  for (const auto& shard : manifest.shards) {
    LEAT_ASSIGN_OR_RETURN(const auto reader, ShardReader::Open(path + "/" + shard.file, shard.checksum));
    for (const auto& slice_incarnation : shard.slices) {
      const uint32_t id = slice_incarnation.slice.value;
      if (id >= table.slices.size()) {
        return Status(Code::kFailedPrecondition, path + ": has slice " + std::to_string(id) +
                                                     ", the job has " + std::to_string(table.slices.size()));
      }
      const auto& spec = table.slices[id];
      const auto out = std::span(variables[spec.variable]).subspan(spec.begin, spec.elements());
      LEAT_RETURN_IF_ERROR(reader->ReadValues(table, slice_incarnation.slice, out));
      read[id] = true;
    }
  }
  for (size_t id = 0; id < read.size(); ++id) {
    if (!read[id]) return Status(Code::kDataLoss, path + ": slice " + std::to_string(id) + " is in no shard");
  }
  return variables;
}

Result<NewestVariables> ReadNewestVariables(const std::string& directory, const protocol::SliceTable& table) {
  LEAT_ASSIGN_OR_RETURN(const IntactCheckpoint newest, ReadIntact(directory));
  if (!newest.manifest) return Status(Code::kNotFound, directory + ": there is no complete checkpoint");
  LEAT_ASSIGN_OR_RETURN(auto variables, ReadVariables(directory, *newest.manifest, table));
  return NewestVariables{std::move(variables), UsedInstead(newest)};
}

}  // namespace leat::checkpoint

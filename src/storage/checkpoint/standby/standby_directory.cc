#include "storage/checkpoint/standby/standby_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/path/paths.h"
#include "storage/checkpoint/journal.h"
#include "storage/checkpoint/manifest.h"
#include "storage/checkpoint/shard.h"
#include "storage/checkpoint/store.h"

namespace leat::checkpoint {
namespace {

std::string PathOf(const std::string& directory, uint64_t id) {
  return directory + "/" + CheckpointName(id);
}

}  // namespace

Result<std::unique_ptr<StandbyDirectory>> StandbyDirectory::Open(const std::string& directory) {
  LEAT_ASSIGN_OR_RETURN(std::string path, AbsolutePath(directory));
  path = std::filesystem::path(path).lexically_normal().string();
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  LEAT_RETURN_IF_ERROR(MakeDirectory(path));
  if (access(path.c_str(), W_OK | X_OK) != 0) return SystemError(path, "write", errno);
  LEAT_ASSIGN_OR_RETURN(File lock, LockDirectory(path));
  std::unique_ptr<StandbyDirectory> made(new StandbyDirectory(std::move(path), std::move(lock)));
  LEAT_ASSIGN_OR_RETURN(made->coordinator_, CoordinatorNumber(made->directory_));
  LEAT_ASSIGN_OR_RETURN(const HighestTerm highest, FindHighestTerm(made->directory_));
  LEAT_ASSIGN_OR_RETURN(const uint32_t run, ReadRun(made->directory_));
  if (highest.number != 0) made->term_ = protocol::MakeTerm(run, highest.number);
  made->founder_ = highest.number != 0 && !highest.copy;
  LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> complete, CompleteCheckpoints(made->directory_));
  if (!complete.empty()) made->newest_checkpoint_ = complete.back();
  return made;
}

Result<std::optional<std::string>> StandbyDirectory::Job() const {
  auto job = ReadJob(directory_);
  if (job.status().code() == Code::kNotFound) return std::optional<std::string>();
  LEAT_RETURN_IF_ERROR(job.status());
  return std::optional(std::move(*job));
}

Result<std::vector<protocol::JournalRecord>> StandbyDirectory::Records() const {
  LEAT_ASSIGN_OR_RETURN(const std::string newest, NewestTerm(directory_));
  LEAT_ASSIGN_OR_RETURN(JournalContents contents, ReadJournal(newest));
  return std::move(contents.records);
}

Status StandbyDirectory::Begin(uint64_t term, const std::string& job,
                               const std::vector<protocol::JournalRecord>& records) {
  if (term_ != 0 && (!protocol::SameRun(term, term_) || term < term_ || (term == term_ && founder_))) {
    return {Code::kStale, directory_ + ": knows term " + std::to_string(protocol::NumberOf(term_)) +
                              " already, which is not before term " +
                              std::to_string(protocol::NumberOf(term))};
  }
  const uint64_t number = protocol::NumberOf(term);
  LEAT_ASSIGN_OR_RETURN(const uint32_t run, ReadRun(directory_));
  if (run == 0) LEAT_RETURN_IF_ERROR(WriteRun(directory_, static_cast<uint32_t>(term >> 32)));
  LEAT_ASSIGN_OR_RETURN(const auto known, Job());
  if (!known || *known != job) LEAT_RETURN_IF_ERROR(WriteJob(directory_, job));
  const std::string path = directory_ + "/" + CopyName(number);
  if (journal_ && term == term_) return journal_->Rewrite(records);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return SystemError(path, "make directory", errno);
  auto journal = Journal::Create(path, records);
  if (!journal.ok()) return journal.status();
  LEAT_RETURN_IF_ERROR(SyncDirectory(directory_));
  journal_.emplace(std::move(*journal));
  term_ = term;
  founder_ = false;
  // Journals that the directory had before, as a coordinator's or as a copy, are obsolete.
  RemoveOtherTerms(directory_, CopyName(number));
  return {};
}

Status StandbyDirectory::Append(std::span<const protocol::JournalRecord> records) {
  if (!journal_) return {Code::kFailedPrecondition, directory_ + ": it follows no journal"};
  return records.empty() ? Status() : journal_->Append(records);
}

// The manifest first, so that an interrupted removal leaves an incomplete checkpoint.
Status StandbyDirectory::RemoveCheckpoint(uint64_t id) {
  const std::string path = PathOf(directory_, id);
  if (unlink((path + "/" + kManifestName).c_str()) == 0) LEAT_RETURN_IF_ERROR(SyncDirectory(path));
  return RemoveFolder(path);
}

Result<std::string> StandbyDirectory::Prepare(uint64_t id) {
  LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> all, ListCheckpoints(directory_));
  LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> complete, CompleteCheckpoints(directory_));
  for (const uint64_t other : all) {
    if (std::ranges::find(complete, other) == complete.end()) LEAT_RETURN_IF_ERROR(RemoveCheckpoint(other));
  }
  const std::string path = PathOf(directory_, id);
  if (mkdir(path.c_str(), 0700) != 0) return SystemError(path, "make directory", errno);
  LEAT_RETURN_IF_ERROR(SyncDirectory(directory_));
  return path;
}

Status StandbyDirectory::Verify(const std::string& path, const protocol::Manifest& manifest) {
  if (path.substr(path.rfind('/') + 1) != manifest.directory ||
      manifest.directory != CheckpointName(manifest.id))
    return {Code::kDataLoss, path + ": the manifest is of " + manifest.directory};
  for (const auto& shard : manifest.shards) {
    if (!IsPlainName(shard.file)) return {Code::kDataLoss, path + ": '" + shard.file + "' is no file's name"};
    LEAT_RETURN_IF_ERROR(VerifyFile(path + "/" + shard.file, shard.bytes, shard.checksum));
  }
  return {};
}

Status StandbyDirectory::Complete(const protocol::Manifest& manifest) {
  const std::string path = PathOf(directory_, manifest.id);
  const std::string text = EncodeManifest(manifest);
  LEAT_RETURN_IF_ERROR(ReplaceFile(path, kManifestName, AsBytes(text)));
  newest_checkpoint_ = std::max(newest_checkpoint_, manifest.id);
  return {};
}

Status StandbyDirectory::Drop(uint64_t oldest_kept, const std::vector<protocol::Position>& watermark) {
  if (!journal_ || newest_checkpoint_ < oldest_kept) return {};
  LEAT_ASSIGN_OR_RETURN(const std::vector<uint64_t> complete, CompleteCheckpoints(directory_));
  for (const uint64_t id : complete) {
    if (id < oldest_kept) LEAT_RETURN_IF_ERROR(RemoveCheckpoint(id));
  }
  LEAT_ASSIGN_OR_RETURN(auto records, journal_->Read());
  return journal_->Rewrite(Compact(std::move(records), watermark));
}

}  // namespace leat::checkpoint

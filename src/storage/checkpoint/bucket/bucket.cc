#include "storage/checkpoint/bucket/bucket.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/path/paths.h"
#include "base/text.h"
#include "base/threads/thread.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/journal.h"
#include "storage/checkpoint/manifest.h"
#include "storage/checkpoint/shard.h"
#include "storage/checkpoint/store.h"

namespace leat::checkpoint {
namespace {

constexpr const char* kTerms = "terms/";
constexpr const char* kCheckpoints = "checkpoint-";
constexpr uint64_t kMaxBucketManifest = 1 << 30;

// The id of the checkpoint of a key, "checkpoint-000007/…".
std::optional<uint64_t> IdOfKey(const std::string& key) {
  const size_t slash = key.find('/');
  return slash == key.npos ? std::nullopt : CheckpointId(key.substr(0, slash));
}

std::string ManifestKey(uint64_t id) {
  return CheckpointName(id) + "/" + kManifestName;
}

std::optional<uint64_t> TermOf(const std::string& key) {
  return key.starts_with(kTerms) ? ToNumber<uint64_t>(key.substr(std::string_view(kTerms).size()))
                                 : std::nullopt;
}

// Reads an object into a file, in pieces by several connections. Not synced.
Status Download(object_store::ObjectStore& store, const std::string& key, File& file, uint64_t size) {
  const uint64_t piece = store.settings().part_bytes;
  const uint64_t pieces = (size + piece - 1) / piece;
  std::atomic<uint64_t> next = 0;
  return RunOnThreads(std::min<uint64_t>(store.settings().connections, pieces), [&]() -> Status {
    Bytes memory(std::min(piece, size));
    for (uint64_t i = next++; i < pieces; i = next++) {
      const std::span<std::byte> part(memory.data(), std::min(piece, size - i * piece));
      Status status = store.Read(key, i * piece, part);
      if (status.ok()) status = file.WriteAt(i * piece, part);
      if (status.ok()) continue;
      next = pieces;
      return status;
    }
    return {};
  });
}

// A shard of the bucket into a directory, verified and synced.
Status FetchShard(object_store::ObjectStore& store, const std::string& key,
                  const protocol::ManifestShard& shard, const std::string& directory) {
  const std::string temporary = directory + "/" + shard.file + ".tmp";
  Status status = [&]() -> Status {
    LEAT_ASSIGN_OR_RETURN(const uint64_t size, store.Size(key));
    const std::string name = object_store::Location(store.settings()) + "/" + key;
    if (size != shard.bytes) {
      return {Code::kDataLoss, name + ": has " + std::to_string(size) + " bytes, the manifest says " +
                                   std::to_string(shard.bytes)};
    }
    LEAT_ASSIGN_OR_RETURN(File file, File::Open(temporary, O_RDWR | O_CREAT | O_TRUNC));
    LEAT_RETURN_IF_ERROR(Download(store, key, file, size));
    LEAT_RETURN_IF_ERROR(file.Sync());
    if (const Status whole = VerifyFile(temporary, shard.bytes, shard.checksum); !whole.ok())
      return {whole.code(), name + ", read into " + whole.message()};
    return RenameSynced(directory, shard.file + ".tmp", shard.file);
  }();
  if (status.ok()) return status;
  unlink(temporary.c_str());
  // The manifest names it.
  return status.code() == Code::kNotFound ? Status(Code::kDataLoss, status.message()) : status;
}

// While a job is fetched, its directory has this file: the names of the folders that are made there, one a
// line. It is written before them.
constexpr const char* kFetching = ".leat-fetching";

// The folders that an interrupted FetchJob has made. kFailedPrecondition if the directory has anything else.
Result<std::vector<std::string>> FoldersOfInterrupted(const std::string& directory) {
  std::vector<std::string> made;
  if (!Exists(directory)) return made;
  const auto list = ReadFile(directory + "/" + kFetching, 4096);
  if (!list.ok() && list.status().code() != Code::kNotFound) return list.status();
  for (std::string_view text = list.ok() ? AsText(*list) : ""; !text.empty();) {
    made.emplace_back(TakeUntil("\n", &text));
    if (!IsPlainName(made.back()))
      return Status(Code::kDataLoss, directory + "/" + kFetching + ": is damaged");
  }
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    const std::string finished = name.ends_with(".tmp") ? name.substr(0, name.size() - 4) : name;
    const bool own = finished == kFetching || (list.ok() && (name == "job.yaml.tmp" || name == kLock)) ||
                     std::ranges::find(made, name) != made.end();
    // The latter is in the root of a disk.
    if (own || name == "lost+found") continue;
    return Status(Code::kFailedPrecondition,
                  directory + ": has '" + name + "'; a job is fetched into a new or empty directory only");
  }
  if (error) return SystemError(directory, "read", error.value());
  return made;
}

Status RemoveFolders(const std::string& directory, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::error_code error;
    std::filesystem::remove_all(directory + "/" + name, error);
    if (error) return SystemError(directory + "/" + name, "remove", error.value());
  }
  return {};
}

}  // namespace

std::string BucketShardName(uint64_t node, uint64_t term) {
  return Formatted("shard-%llu-%08llx.safetensors", static_cast<unsigned long long>(node),
                   static_cast<unsigned long long>(term >> 32));
}

std::string ShardKey(std::string_view checkpoint_directory, const std::string& file) {
  return std::filesystem::path(checkpoint_directory).filename().string() + "/" + file;
}

Result<BucketContents> LookAtBucket(object_store::ObjectStore& store) {
  BucketContents contents;
  LEAT_ASSIGN_OR_RETURN(const auto terms, store.List(kTerms));
  for (const auto& object : terms)
    contents.highest_term = std::max(contents.highest_term, TermOf(object.key).value_or(0));
  LEAT_ASSIGN_OR_RETURN(const auto objects, store.List(kCheckpoints));
  for (const auto& object : objects) {
    if (const auto id = IdOfKey(object.key); id && object.key == ManifestKey(*id))
      contents.complete.push_back(*id);
  }
  std::ranges::sort(contents.complete);
  return contents;
}

Status Bucket::CheckTerm() {
  LEAT_ASSIGN_OR_RETURN(const auto terms, store_->List(kTerms));
  for (const auto& object : terms) {
    if (TermOf(object.key).value_or(0) <= term_) continue;
    return {Code::kFailedPrecondition,
            object_store::Location(store_->settings()) + "/" + object.key +
                ": another coordinator has claimed the bucket; this one, of term " + std::to_string(term_) +
                ", writes and removes nothing there any more"};
  }
  return {};
}

Status Bucket::Claim() {
  if (claimed_) return {};
  LEAT_RETURN_IF_ERROR(CheckTerm());
  const Status put = store_->PutNew(kTerms + std::to_string(term_), AsBytes(owner_));
  if (put.code() == Code::kStale) {
    return {Code::kFailedPrecondition,
            put.message() + ", of another coordinator; this one writes and removes nothing there"};
  }
  LEAT_RETURN_IF_ERROR(put);
  LEAT_RETURN_IF_ERROR(CheckTerm());
  claimed_ = true;
  if (const Status status = GiveUpUploads(UINT64_MAX); !status.ok())
    spdlog::warn("uploads that were not completed stay: {}", status.message());
  // The highest one is enough.
  if (const auto terms = store_->List(kTerms); terms.ok()) {
    for (const auto& object : *terms)
      if (TermOf(object.key).value_or(term_) < term_) (void)store_->Remove(object.key);
  }
  return {};
}

Status Bucket::FetchMissing(const protocol::Manifest& manifest, const std::string& directory) {
  for (const auto& shard : manifest.shards) {
    if (!IsPlainName(shard.file))
      return {Code::kInvalidArgument, "'" + shard.file + "' is not a valid name of a shard"};
    if (CheckSize(directory + "/" + shard.file, shard.bytes).ok()) continue;
    LEAT_RETURN_IF_ERROR(FetchShard(*store_, ShardKey(directory, shard.file), shard, directory));
  }
  return {};
}

Status Bucket::Commit(const BucketManifest& manifest) {
  LEAT_ASSIGN_OR_RETURN(const std::string text, EncodeBucketManifest(manifest));
  LEAT_RETURN_IF_ERROR(Claim());
  LEAT_RETURN_IF_ERROR(CheckTerm());
  const Status put = store_->PutNew(ManifestKey(manifest.manifest.id), AsBytes(text));
  if (put.code() != Code::kStale) return put;
  return {Code::kFailedPrecondition, put.message() + ", of another coordinator"};
}

Status Bucket::GiveUpUploads(uint64_t before) {
  LEAT_ASSIGN_OR_RETURN(const auto uploads, store_->OpenUploads(kCheckpoints));
  for (const auto& upload : uploads)
    if (IdOfKey(upload.key).value_or(UINT64_MAX) < before) LEAT_RETURN_IF_ERROR(store_->GiveUp(upload));
  return {};
}

Status Bucket::Drop(uint64_t oldest_kept, uint64_t newest) {
  if (!claimed_) return {};
  LEAT_RETURN_IF_ERROR(CheckTerm());
  LEAT_ASSIGN_OR_RETURN(const auto objects, store_->List(kCheckpoints));
  std::set<uint64_t> complete;
  std::map<uint64_t, std::vector<std::string>> found;
  for (const auto& object : objects) {
    const auto id = IdOfKey(object.key);
    if (!id) continue;
    if (object.key == ManifestKey(*id)) complete.insert(*id);
    found[*id].push_back(object.key);
  }
  for (const auto& [id, keys] : found) {
    const bool old = id < oldest_kept || (id < newest && !complete.contains(id));
    if (!old) continue;
    // The manifest first: an interrupted removal leaves no checkpoint behind.
    if (complete.contains(id)) LEAT_RETURN_IF_ERROR(store_->Remove(ManifestKey(id)));
    for (const std::string& key : keys) LEAT_RETURN_IF_ERROR(store_->Remove(key));
  }
  return GiveUpUploads(newest);
}

Status FetchJob(object_store::ObjectStore& store, const std::string& directory) {
  const std::string where = object_store::Location(store.settings());
  LEAT_ASSIGN_OR_RETURN(std::string path, AbsolutePath(directory));
  path = std::filesystem::path(path).lexically_normal().string();
  if (Exists(path + "/job.yaml"))
    return {Code::kFailedPrecondition,
            path + ": has a job already; resume that one, or name another directory"};
  LEAT_RETURN_IF_ERROR(FoldersOfInterrupted(path).status());
  LEAT_ASSIGN_OR_RETURN(const BucketContents contents, LookAtBucket(store));
  if (contents.complete.empty()) return {Code::kNotFound, where + ": there is no complete checkpoint"};
  std::string why;
  std::vector<BucketManifest> found;
  const auto pass_over = [&](const Status& status) -> Status {
    if (status.code() != Code::kDataLoss && status.code() != Code::kNotFound) return status;
    why += status.message() + "; ";
    spdlog::warn("{}; the checkpoint before it is used instead", status.message());
    return {};
  };
  for (const uint64_t id : contents.complete) {
    const auto text = store.Get(ManifestKey(id), kMaxBucketManifest);
    auto manifest = text.ok() ? ParseBucketManifest(*text, where + "/" + ManifestKey(id))
                              : Result<BucketManifest>(text.status());
    if (manifest.ok() && manifest->manifest.id != id)
      manifest = Status(Code::kDataLoss, where + "/" + ManifestKey(id) + ": is that of checkpoint " +
                                             std::to_string(manifest->manifest.id));
    if (manifest.ok()) {
      found.push_back(std::move(*manifest));
    } else {
      LEAT_RETURN_IF_ERROR(pass_over(manifest.status()));
    }
  }
  std::ranges::sort(found, std::ranges::greater(),
                    [](const BucketManifest& one) { return std::pair(one.term, one.manifest.id); });
  LEAT_RETURN_IF_ERROR(MakeDirectory(path));
  LEAT_RETURN_IF_ERROR(File::Open(path + "/" + kFetching, O_RDWR | O_CREAT).status());
  LEAT_ASSIGN_OR_RETURN(const File lock, LockDirectory(path));
  if (Exists(path + "/job.yaml")) {
    unlink((path + "/" + kFetching).c_str());
    return {Code::kFailedPrecondition, path + ": has a job now, which another process has fetched"};
  }
  LEAT_ASSIGN_OR_RETURN(std::vector<std::string> made, FoldersOfInterrupted(path));
  LEAT_RETURN_IF_ERROR(RemoveFolders(path, made));
  for (const BucketManifest& one : found) {
    const std::string name = CheckpointName(one.manifest.id), folder = path + "/" + name;
    const uint64_t term = std::max(contents.highest_term, one.term);
    made = {name, TermName(term)};
    LEAT_RETURN_IF_ERROR(ReplaceFile(path, kFetching, AsBytes(made[0] + "\n" + made[1] + "\n")));
    LEAT_RETURN_IF_ERROR(MakeDirectory(folder));
    const Status fetched = [&]() -> Status {
      for (const auto& shard : one.manifest.shards)
        LEAT_RETURN_IF_ERROR(FetchShard(store, name + "/" + shard.file, shard, folder));
      return {};
    }();
    if (!fetched.ok()) {
      LEAT_RETURN_IF_ERROR(pass_over(fetched));
      LEAT_RETURN_IF_ERROR(RemoveFolders(path, made));
      continue;
    }
    // As a former coordinator of the directory would have left it. The job is last: without it there is none.
    LEAT_RETURN_IF_ERROR(ReplaceFile(folder, kManifestName, AsBytes(EncodeManifest(one.manifest))));
    LEAT_RETURN_IF_ERROR(WriteFormerTerm(path, term, one.records));
    LEAT_RETURN_IF_ERROR(SyncDirectory(path));
    LEAT_RETURN_IF_ERROR(WriteJob(path, one.job));
    unlink((path + "/" + kFetching).c_str());
    return {};
  }
  unlink((path + "/" + kFetching).c_str());
  return {Code::kDataLoss, why + "there is no other one"};
}

}  // namespace leat::checkpoint

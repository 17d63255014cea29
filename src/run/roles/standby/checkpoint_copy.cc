#include "run/roles/standby/checkpoint_copy.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "base/path/paths.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/manifest.h"
#include "storage/checkpoint/standby/standby_directory.h"
#include "storage/checkpoint/store.h"

namespace leat::roles {
namespace {

constexpr uint64_t kPiece = 4 << 20;
constexpr uint64_t kMaxManifest = 256 << 20;

Status CopyShard(transfer::Client& client, const std::string& name, const std::string& path, uint64_t bytes) {
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, client.Size(name));
  if (size != bytes) {
    return {Code::kDataLoss,
            name + ": has " + std::to_string(size) + " bytes, the manifest says " + std::to_string(bytes)};
  }
  LEAT_ASSIGN_OR_RETURN(auto file, checkpoint::File::Open(path, O_WRONLY | O_CREAT | O_TRUNC));
  Bytes piece;
  for (uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(std::min(kPiece, size - at));
    LEAT_RETURN_IF_ERROR(client.Read(name, at, piece));
    LEAT_RETURN_IF_ERROR(file.Write(piece));
  }
  return file.Sync();
}

Result<protocol::Manifest> Copy(transfer::Client& client, uint64_t id, const std::string& directory) {
  const std::string folder = checkpoint::CheckpointName(id) + "/";
  const std::string name = folder + checkpoint::kManifestName;
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, client.Size(name));
  if (size > kMaxManifest)
    return Status(Code::kResourceExhausted, name + ": has " + std::to_string(size) + " bytes");
  Bytes text(size);
  LEAT_RETURN_IF_ERROR(client.Read(name, 0, text));
  LEAT_ASSIGN_OR_RETURN(protocol::Manifest manifest, checkpoint::ParseManifest(text, name));
  if (manifest.id != id)
    return Status(Code::kDataLoss, name + ": is that of checkpoint " + std::to_string(manifest.id));
  for (const auto& shard : manifest.shards) {
    if (!IsPlainName(shard.file))
      return Status(Code::kDataLoss, name + ": '" + shard.file + "' is not a valid name of a shard");
    LEAT_RETURN_IF_ERROR(CopyShard(client, folder + shard.file, directory + "/" + shard.file, shard.bytes));
  }
  LEAT_RETURN_IF_ERROR(checkpoint::SyncDirectory(directory));
  LEAT_RETURN_IF_ERROR(checkpoint::StandbyDirectory::Verify(directory, manifest));
  return manifest;
}

}  // namespace

void CheckpointCopy::Start(uint64_t id, std::string directory, const std::string& service) {
  busy_ = true;
  client_ = std::make_shared<transfer::Client>(service, make_transport_);
  thread_.Post([this, client = client_, id, directory = std::move(directory)] {
    Done done{id, Copy(*client, id, directory)};
    std::lock_guard lock(mutex_);
    done_.emplace(std::move(done));
  });
}

std::optional<CheckpointCopy::Done> CheckpointCopy::TakeDone() {
  std::lock_guard lock(mutex_);
  if (!done_) return std::nullopt;
  busy_ = false;
  return std::exchange(done_, std::nullopt);
}

void CheckpointCopy::Abort() {
  if (client_ != nullptr) client_->Abort();
}

}  // namespace leat::roles

#include "roles/shards/shard_files.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <utility>

#include "checkpoint/file.h"
#include "net/address.h"
#include "roles/shards/shard_service.h"

namespace leat::roles {
namespace {

using checkpoint::ShardReader;

// A shard in the job's directory on another host.
class PublishedShard final : public checkpoint::ShardSource {
 public:
  PublishedShard(transfer::Client& client, std::string name, uint64_t size)
      : client_(client), name_(std::move(name)), size_(size) {}
  const std::string& path() const override { return name_; }
  uint64_t size() const override { return size_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    return client_.Read(name_, offset, out);
  }

 private:
  transfer::Client& client_;
  const std::string name_;
  const uint64_t size_;
};

Result<std::unique_ptr<ShardReader>> OpenPublished(transfer::Client& client,
                                                   const protocol::SliceOrder& order) {
  std::string name = PublishedName(order.directory, order.file);
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, client.Size(name));
  return ShardReader::Open(std::make_unique<PublishedShard>(client, std::move(name), size),
                           order.file_checksum);
}

bool SeesDirectory(const protocol::JoinReply& joined) {
  if (joined.transfers.empty()) return true;
  const auto content = checkpoint::ReadFile(joined.probe, joined.probe_content.size());
  const std::string directory = std::filesystem::path(joined.probe).parent_path().string();
  return content.ok() && AsText(*content) == joined.probe_content && access(directory.c_str(), W_OK) == 0;
}

// Of the service, for a process that has reached the coordinator at this address.
std::string AddressOf(const std::string& transfers, const std::string& coordinator) {
  return transfers.starts_with(':') ? std::string(net::HostOf(coordinator)) + transfers : transfers;
}

// Removes a file at the end of its scope.
struct Removal {
  const std::string path;
  ~Removal() { unlink(path.c_str()); }
};

}  // namespace

Result<std::unique_ptr<ShardFiles>> ShardFiles::Make(const protocol::JoinReply& joined,
                                                     const Options& options) {
  std::unique_ptr<ShardFiles> made(new ShardFiles(options));
  if (!SeesDirectory(joined)) LEAT_RETURN_IF_ERROR(made->BeRemote(joined, options.coordinator));
  return made;
}

Status ShardFiles::BeRemote(const protocol::JoinReply& joined, const std::string& coordinator) {
  const std::string directory = std::filesystem::path(joined.probe).parent_path().string();
  const std::string address = AddressOf(joined.transfers, coordinator);
  std::lock_guard lock(mutex_);
  if (aborted_ || (client_ != nullptr && client_->address() == address)) return {};
  if (scratch_ == nullptr) {
    LEAT_ASSIGN_OR_RETURN(
        const std::string parent,
        ScratchParent(options_.scratch, "this host cannot write to the job's directory " + directory +
                                            ", so checkpoints are transferred and need a place on a disk"));
    LEAT_ASSIGN_OR_RETURN(scratch_, Scratch::Make(parent));
  }
  if (client_ == nullptr) {
    spdlog::info("{} cannot be seen here: checkpoints are transferred through {} and {}", directory,
                 scratch_->path(), address);
  } else {
    client_->Abort();
  }
  client_ = std::make_shared<transfer::Client>(address, options_.make_transport, options_.limits);
  return {};
}

std::shared_ptr<transfer::Client> ShardFiles::Service() {
  std::lock_guard lock(mutex_);
  return client_;
}

std::string ShardFiles::ScratchPath() {
  std::lock_guard lock(mutex_);
  return scratch_ == nullptr ? std::string() : scratch_->path();
}

void ShardFiles::Redirect(const protocol::JoinReply& told, const std::string& coordinator) {
  if (!told.probe.empty() && SeesDirectory(told)) {
    std::lock_guard lock(mutex_);
    if (client_ != nullptr) client_->Abort();
    client_.reset();
  } else if (const Status remote = BeRemote(told, coordinator); !remote.ok()) {
    spdlog::error("{}", remote.message());
  }
}

void ShardFiles::Load(
    const std::vector<protocol::SliceOrder>& orders, const protocol::SliceTable& table,
    const optim::OptimizerConfig& optimizer,
    const std::function<void(const protocol::SliceOrder&, Result<protocol::Slice>)>& loaded) {
  const auto slots = static_cast<uint32_t>(optim::SlotNames(optimizer).size());
  const auto service = Service();
  std::map<std::string, Result<std::unique_ptr<ShardReader>>> readers;
  for (const auto& order : orders) {
    const std::string path = order.directory + "/" + order.file;
    auto reader = readers.find(path);
    if (reader == readers.end()) {
      reader = readers
                   .emplace(path, service != nullptr ? OpenPublished(*service, order)
                                                     : ShardReader::Open(path, order.file_checksum))
                   .first;
    }
    auto slice = reader->second.ok() ? (*reader->second)->Read(table, order.slice, slots)
                                     : Result<protocol::Slice>(reader->second.status());
    if (!slice.ok()) spdlog::error("slice {}: {}", order.slice.value, slice.status().ToString());
    loaded(order, std::move(slice));
  }
}

Status ShardFiles::Send(transfer::Client& service, uint64_t checkpoint,
                        const protocol::ManifestShard& shard) {
  const Removal removal{ScratchPath() + "/" + shard.file};
  LEAT_ASSIGN_OR_RETURN(const checkpoint::File file, checkpoint::File::Open(removal.path, O_RDONLY));
  LEAT_ASSIGN_OR_RETURN(const uint64_t checksum, file.ReadChecksum());
  const uint64_t lost = service.connections_lost();
  Status sent = service.Send(
      {.folder = checkpoint,
       .name = shard.file,
       .bytes = shard.bytes,
       .checksum = checksum,
       .read = [&file](uint64_t offset, std::span<std::byte> out) { return file.ReadAt(offset, out); }});
  if (service.connections_lost() > lost) {
    spdlog::info("checkpoint {}: the transfer of {} bytes lost {} connections", checkpoint, shard.bytes,
                 service.connections_lost() - lost);
  }
  return sent;
}

protocol::ShardReport ShardFiles::Save(protocol::SaveShard save, NodeId node,
                                       const protocol::SliceTable& table,
                                       const optim::OptimizerConfig& optimizer,
                                       const std::function<void()>& read,
                                       const checkpoint::ShardProgress& progress) {
  const auto service = Service();
  const bool remote = service != nullptr;
  auto shard = checkpoint::WriteShard(
      remote ? ScratchPath() : save.order.directory, node.value, table, optim::SlotNames(optimizer),
      std::move(save.slices), remote ? checkpoint::Durability::kNotSynced : checkpoint::Durability::kSynced,
      progress);
  read();
  protocol::ShardReport report;
  report.checkpoint = save.order.id;
  report.status = shard.status();
  if (shard.ok() && remote) report.status = Send(*service, save.order.id, *shard);
  if (report.status.ok()) {
    report.file = shard->file;
    report.bytes = shard->bytes;
    report.checksum = shard->checksum;
    report.slices = shard->slices;
  } else if (!remote && !std::filesystem::exists(save.order.directory)) {
    spdlog::info("checkpoint {} has been given up: {} is gone", save.order.id, save.order.directory);
  } else {
    spdlog::error("checkpoint {}: {}", save.order.id, report.status.ToString());
  }
  return report;
}

void ShardFiles::Abort() {
  std::lock_guard lock(mutex_);
  aborted_ = true;
  if (client_ != nullptr) client_->Abort();
}

}  // namespace leat::roles

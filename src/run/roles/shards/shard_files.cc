#include "run/roles/shards/shard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <utility>
#include <variant>

#include "base/log.h"
#include "net/address.h"
#include "net/security/private_file.h"
#include "storage/checkpoint/bucket/bucket.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/store.h"

namespace leat::roles {
namespace {

using checkpoint::ShardReader;

// A shard in the job's directory on another host, or in the bucket.
class RemoteShard final : public checkpoint::ShardSource {
 public:
  using Read = std::function<Status(uint64_t offset, std::span<std::byte> out)>;
  RemoteShard(std::string path, uint64_t size, Read read)
      : path_(std::move(path)), size_(size), read_(std::move(read)) {}
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override { return read_(offset, out); }

 private:
  const std::string path_;
  const uint64_t size_;
  const Read read_;
};

// The parts of a bucket's uploads and downloads take turns with what trains.
constexpr int kNiceUpload = kNiceWithFiles;
// Time limit of a request. A server whose slices are only in the bucket has nothing better to do than ask
// again.
constexpr Duration kLoadDeadline = std::chrono::minutes(10);

Result<std::unique_ptr<ShardReader>> OpenPublished(transfer::Client& client,
                                                   const protocol::SliceOrder& order) {
  const std::string name = PublishedName(order.directory, order.file);
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, client.Size(name));
  const auto read = [&client, name](uint64_t offset, std::span<std::byte> out) {
    return client.Read(name, offset, out);
  };
  return ShardReader::Open(std::make_unique<RemoteShard>(name, size, read), order.file_checksum);
}

bool SeesDirectory(const protocol::JoinReply& joined) {
  if (joined.transfers.empty()) return true;
  const auto content = checkpoint::ReadFile(joined.probe, joined.probe_content.size());
  const std::string directory = std::filesystem::path(joined.probe).parent_path().string();
  return content.ok() && AsText(*content) == joined.probe_content && access(directory.c_str(), W_OK) == 0;
}

// Removes a file at the end of its scope.
struct Removal {
  const std::string path;
  ~Removal() {
    if (!path.empty()) unlink(path.c_str());
  }
};

constexpr const char* kProbe = "probe";
constexpr size_t kPublishedCheckpoints = 2;

// Uploads a file in a folder as the shard of a checkpoint. `is_copy`: the file is removed at the end.
Status PutInBucket(object_store::ObjectStore& store, const protocol::CheckpointOrder& order,
                   const std::string& folder, const protocol::ManifestShard& shard, bool is_copy) {
  const std::string path = folder + "/" + shard.file;
  const Removal removal{is_copy ? path : ""};
  LEAT_ASSIGN_OR_RETURN(const checkpoint::File file, checkpoint::File::Open(path, O_RDONLY));
  const auto begun = std::chrono::steady_clock::now();
  LEAT_RETURN_IF_ERROR(
      store.Upload(checkpoint::ShardKey(order.directory, shard.file), shard.bytes,
                   [&file](uint64_t offset, std::span<std::byte> out) { return file.ReadAt(offset, out); }));
  spdlog::info("checkpoint {}: {} bytes are in {} after {:.2f} s and {} retries", order.id, shard.bytes,
               object_store::Location(store.settings()), Seconds(std::chrono::steady_clock::now() - begun),
               store.counts().retries);
  return {};
}

protocol::ShardReport ReportOf(const protocol::CheckpointOrder& order,
                               const Result<protocol::ManifestShard>& shard, const Status& sent,
                               bool remote) {
  protocol::ShardReport report;
  report.checkpoint = order.id;
  report.status = shard.ok() ? sent : shard.status();
  if (report.status.ok()) {
    report.file = shard->file;
    report.bytes = shard->bytes;
    report.checksum = shard->checksum;
    report.slices = shard->slices;
  } else if (!remote && !std::filesystem::exists(order.directory)) {
    spdlog::info("checkpoint {} has been given up: {} is gone", order.id, order.directory);
  } else {
    spdlog::error("checkpoint {}: {}", order.id, report.status.ToString());
  }
  return report;
}

}  // namespace

Result<std::unique_ptr<ShardFiles>> ShardFiles::Make(const protocol::JoinReply& joined,
                                                     const Options& options) {
  std::unique_ptr<ShardFiles> made(new ShardFiles(options, joined.term));
  if (options.bucket) made->upload_thread_.emplace(kNiceUpload);
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
    if (!slice.ok() && options_.bucket) {
      spdlog::warn("slice {}: {}; it is read from the bucket", order.slice.value, slice.status().ToString());
      slice = LoadFromBucket(order, table, slots);
    }
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

Result<protocol::Slice> ShardFiles::LoadFromBucket(const protocol::SliceOrder& order,
                                                   const protocol::SliceTable& table, uint32_t slots) {
  std::shared_ptr<object_store::ObjectStore> store;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) return Status(Code::kAborted, "this process ends");
    if (loads_ == nullptr) {
      object_store::StoreOptions options = options_.store;
      options.retries.deadline = kLoadDeadline;
      LEAT_ASSIGN_OR_RETURN(loads_, object_store::OpenS3(*options_.bucket, options));
    }
    store = loads_;
  }
  const std::string key = checkpoint::ShardKey(order.directory, order.file);
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, store->Size(key));
  const auto read = [store, key](uint64_t offset, std::span<std::byte> out) {
    return store->Read(key, offset, out);
  };
  const std::string path = object_store::Location(store->settings()) + "/" + key;
  LEAT_ASSIGN_OR_RETURN(const auto reader, ShardReader::Open(std::make_unique<RemoteShard>(path, size, read),
                                                             order.file_checksum));
  return reader->Read(table, order.slice, slots);
}

Result<std::shared_ptr<object_store::ObjectStore>> ShardFiles::NextUpload() {
  object_store::StoreOptions options = options_.store;
  options.nice = kNiceUpload;
  LEAT_ASSIGN_OR_RETURN(std::shared_ptr<object_store::ObjectStore> store,
                        object_store::OpenS3(*options_.bucket, options));
  std::lock_guard lock(mutex_);
  if (aborted_) return Status(Code::kAborted, "this process ends");
  if (uploads_ != nullptr) uploads_->Abort();
  uploads_ = store;
  return store;
}

void ShardFiles::Save(protocol::SaveShard save, NodeId node, const protocol::SliceTable& table,
                      const optim::OptimizerConfig& optimizer, const std::function<void()>& read,
                      std::function<void(protocol::ShardReport)> done,
                      const checkpoint::ShardProgress& progress) {
  const auto service = Service();
  const bool remote = service != nullptr;
  Result<std::shared_ptr<object_store::ObjectStore>> bucket{std::shared_ptr<object_store::ObjectStore>()};
  if (options_.bucket) bucket = NextUpload();
  if (!bucket.ok()) {
    read();
    return done(ReportOf(save.order, bucket.status(), Status(), remote));
  }
  const std::string folder = remote ? ScratchPath() : save.order.directory;
  auto shard = checkpoint::WriteShard(
      folder, node.value, table, optim::SlotNames(optimizer), std::move(save.slices),
      remote ? checkpoint::Durability::kNotSynced : checkpoint::Durability::kSynced, progress,
      options_.bucket ? checkpoint::BucketShardName(node.value, term_) : std::string());
  read();
  if (!shard.ok() || !options_.bucket) {
    const Status sent = shard.ok() && remote ? Send(*service, save.order.id, *shard) : Status();
    return done(ReportOf(save.order, shard, sent, remote));
  }
  upload_thread_->Post([store = *bucket, order = save.order, folder, shard, remote, done = std::move(done)] {
    done(ReportOf(order, shard, PutInBucket(*store, order, folder, *shard, remote), remote));
  });
}

void ShardFiles::Abort() {
  std::lock_guard lock(mutex_);
  aborted_ = true;
  if (uploads_ != nullptr) uploads_->Abort();
  if (loads_ != nullptr) loads_->Abort();
  if (client_ != nullptr) client_->Abort();
}

std::string PublishedName(const std::string& checkpoint_directory, const std::string& file) {
  return std::filesystem::path(checkpoint_directory).filename().string() + "/" + file;
}

uint64_t SavedBytes(const std::string& checkpoint_directory) {
  uint64_t bytes = 0;
  std::error_code gone;  // a file or the directory is being renamed or removed
  for (std::filesystem::directory_iterator at(checkpoint_directory, gone), end; !gone && at != end;
       at.increment(gone)) {
    std::error_code renamed;
    const uint64_t size = at->file_size(renamed);
    if (!renamed) bytes += size;
  }
  return bytes;
}

Result<std::unique_ptr<ShardService>> ShardService::Start(const Options& options) {
  std::unique_ptr<ShardService> made(new ShardService());
  made->max_bytes_ = options.max_bytes;
  made->probe_ = options.directory + "/" + kProbe;
  made->probe_content_ = net::RandomHex(16);
  LEAT_RETURN_IF_ERROR(checkpoint::ReplaceFile(options.directory, kProbe, AsBytes(made->probe_content_)));
  LEAT_ASSIGN_OR_RETURN(made->service_, transfer::Service::Start({.listen = options.listen,
                                                                  .make_transport = options.make_transport}));
  const std::string port = made->address().substr(made->address().rfind(':'));
  // Without an advertised host, a role uses the one by which it has reached the coordinator.
  if (!options.advertise.empty()) {
    LEAT_ASSIGN_OR_RETURN(const std::string coordinator,
                          net::AdvertisedAddress(options.advertise, made->address()));
    made->transfers_ = net::HostOf(coordinator);
  }
  made->transfers_ += port;
  return made;
}

void ShardService::Fill(protocol::JoinReply* reply) const {
  reply->probe = probe_;
  reply->probe_content = probe_content_;
  reply->transfers = transfers_;
}

void ShardService::FillHeartbeat(protocol::ControlReply* reply) const {
  const auto fill = [this](auto* member) {
    member->transfers = transfers_;
    member->probe = probe_;
    member->probe_content = probe_content_;
  };
  if (auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(reply)) fill(worker);
  if (auto* server = std::get_if<protocol::ServerHeartbeatReply>(reply)) fill(server);
}

Status ShardService::OnComplete(const std::string& directory, const protocol::Manifest& manifest) {
  service_->StopUploads(manifest.id);
  std::vector<std::string>& names = published_[manifest.id];
  names.clear();
  for (const auto& shard : manifest.shards) {
    LEAT_ASSIGN_OR_RETURN(auto content, transfer::Content::Open(directory + "/" + shard.file));
    names.push_back(PublishedName(directory, shard.file));
    service_->Publish(names.back(), std::move(content));
  }
  // For standbys, which copy whole checkpoints.
  if (auto text = transfer::Content::Open(directory + "/" + checkpoint::kManifestName); text.ok()) {
    names.push_back(PublishedName(directory, checkpoint::kManifestName));
    service_->Publish(names.back(), std::move(*text));
  }
  while (published_.size() > kPublishedCheckpoints) OnRemoved(published_.begin()->first);
  return {};
}

void ShardService::OnRemoved(uint64_t checkpoint) {
  service_->StopUploads(checkpoint);
  const auto names = published_.extract(checkpoint);
  if (names.empty()) return;
  for (const std::string& name : names.mapped()) service_->Withdraw(name);
}

}  // namespace leat::roles

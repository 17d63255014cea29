#include "run/roles/shards/shard_service.h"

#include <filesystem>
#include <utility>
#include <variant>

#include "net/address.h"
#include "net/security/private_file.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/store.h"

namespace leat::roles {
namespace {

constexpr const char* kProbe = "probe";
constexpr size_t kPublishedCheckpoints = 2;

}  // namespace

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

void ShardService::OnPrepared(const protocol::CheckpointOrder& order) {
  service_->AcceptUploads(order.id, order.directory, max_bytes_);
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

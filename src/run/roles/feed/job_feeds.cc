#include "run/roles/feed/job_feeds.h"

#include <filesystem>
#include <thread>
#include <variant>

#include "base/clock.h"
#include "base/log.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"
#include "net/transports.h"
#include "run/launcher/signals.h"
#include "storage/checkpoint/file.h"

namespace leat::roles {
namespace {

constexpr Duration kFindDeadline = std::chrono::seconds(3);

Result<protocol::JobReply> Ask(control::ControlClient& client, Duration deadline) {
  LEAT_ASSIGN_OR_RETURN(auto job, control::CallFor<protocol::JobReply>(
                                      client, protocol::JobRequest{ProgramVersion()}, deadline));
  if (!job.status.ok()) return job.status;
  for (std::string& feed : job.feeds) feed = AddressOf(feed, client.address());
  return job;
}

class WaitingCoordinator {
 public:
  explicit WaitingCoordinator(const std::string& job) : job_(job) {}

  // On the loop.
  protocol::ControlReply Answer(const protocol::ControlRequest& request) {
    if (const auto* job = std::get_if<protocol::JobRequest>(&request)) {
      if (job->version != ProgramVersion()) return protocol::JobReply{.status = OtherVersion(job->version)};
      return protocol::JobReply{.job = job_};
    }
    if (const auto* join = std::get_if<protocol::JoinRequest>(&request)) return Join(*join);
    if (std::holds_alternative<protocol::StatusRequest>(request))
      return protocol::StatusReply{R"({"phase":"waiting for a feed","events":0,"members":[]})"};
    if (const auto* admin = std::get_if<protocol::AdminRequest>(&request);
        admin != nullptr && admin->kind == protocol::AdminRequest::Kind::kStop) {
      stopped = true;
      return protocol::AdminReply{};
    }
    return protocol::Refusal{Status(Code::kUnavailable, "the coordinator waits for a feed")};
  }

  std::string feed;  // its address, once there is one
  bool stopped = false;

 private:
  static Status OtherVersion(const std::string& version) {
    return {Code::kFailedPrecondition, "this program is version \"" + version +
                                           "\", the coordinator is version \"" + ProgramVersion() + "\""};
  }

  protocol::ControlReply Join(const protocol::JoinRequest& join) {
    protocol::JoinReply reply;
    if (join.version != ProgramVersion()) {
      reply.status = OtherVersion(join.version);
    } else if (join.role != protocol::Role::kFeed) {
      reply.status = Status(Code::kUnavailable, "the coordinator waits for a feed with the job's files");
    } else {
      feed = join.address;
      reply.status = Status(Code::kUnavailable, "the coordinator opens the stream");
    }
    return reply;
  }

  const std::string job_;
};

}  // namespace

Result<protocol::JobReply> AskForJob(const CoordinatorClientOptions& options, Duration deadline) {
  const auto client = control::ControlClient::Make(options.coordinator, options.token, options.tls);
  return Ask(*client, deadline);
}

feed::ClientOptions FeedsOf(const CoordinatorClientOptions& options, net::TransportOptions transport,
                            uint64_t content) {
  feed::ClientOptions feeds;
  feeds.content = content;
  feeds.make_transport = [transport = std::move(transport)](net::Loop& loop) {
    return net::MakeTcpTransport(loop, transport);
  };
  std::shared_ptr<control::ControlClient> client =
      control::ControlClient::Make(options.coordinator, options.token, options.tls);
  feeds.find_feeds = [client]() -> Result<std::vector<std::string>> {
    LEAT_ASSIGN_OR_RETURN(protocol::JobReply reply, Ask(*client, kFindDeadline));
    return std::move(reply.feeds);
  };
  return feeds;
}

Status FetchFromFeeds(const feed::ClientOptions& feeds, const job::Asset& asset, const std::string& path) {
  constexpr Duration kRetry = std::chrono::milliseconds(500);
  const MonotonicClock clock;
  const Time until = clock.Now() + feeds.deadline;
  while (true) {
    feed::Client client(feeds);  // a new one may choose another feed
    Status status = feed::FetchAsset(client, asset.identity, path);
    const bool of_the_feed = status.code() == Code::kNotFound || status.code() == Code::kDataLoss;
    if (!of_the_feed || clock.Now() + kRetry >= until) return status;
    spdlog::warn("{}; trying again", status.message());
    std::this_thread::sleep_for(kRetry);
  }
}

std::vector<feed::Asset> ServedAssets(const job::Job& job) {
  std::vector<feed::Asset> served;
  for (const job::Asset& asset : job.assets)
    served.push_back({.path = asset.file, .identity = asset.identity});
  return served;
}

Result<nn::LayerFiles::Copies> ModelFiles::Find(const std::vector<job::Asset>& assets) {
  nn::LayerFiles::Copies copies;
  for (const job::Asset& asset : assets) {
    const Status own = job::CheckAsset(asset);
    if (own.ok()) continue;
    if (scratch_ == nullptr) {
      LEAT_ASSIGN_OR_RETURN(
          const std::string parent,
          ScratchParent(options_.scratch, own.message() + "; a copy from a feed needs a place on a disk"));
      LEAT_ASSIGN_OR_RETURN(scratch_, Scratch::Make(parent));
    }
    job::Asset copy = asset;
    copy.file = scratch_->path() + "/" + job::AssetFileName(asset.identity);
    if (!job::CheckAsset(copy).ok()) {
      const Status fetched = FetchFromFeeds(options_.feeds(), asset, copy.file);
      if (!fetched.ok()) return fetched.With(own.message() + "; fetching it from a feed");
      spdlog::info("{}; a copy of {} bytes is fetched from a feed", own.message(),
                   std::filesystem::file_size(copy.file));
    }
    copies[asset.path] = copy.file;
  }
  return copies;
}

feed::ClientOptions FeedsAt(std::shared_ptr<const FeedAddresses> addresses,
                            const CoordinatorOptions& coordinator, uint64_t content) {
  feed::ClientOptions options;
  options.content = content;
  options.make_transport = [token = coordinator.token, tls = coordinator.tls](net::Loop& loop) {
    return net::MakeTcpTransport(loop, {.token = token, .port = feed::FeedPort(), .tls = tls});
  };
  options.find_feeds = [addresses]() -> Result<std::vector<std::string>> { return addresses->Get(); };
  return options;
}

Result<FoundFeed> WaitForFeed(const CoordinatorOptions& options, const std::string& job) {
  net::Loop loop;
  WaitingCoordinator waiting(job);
  LEAT_ASSIGN_OR_RETURN(
      const auto server,
      control::ControlServer::Start(
          options.listen, options.token,
          [&](protocol::ControlRequest request, std::function<void(protocol::ControlReply)> reply) {
            loop.Post([&, request = std::move(request), reply = std::move(reply)] {
              reply(waiting.Answer(request));
              if (waiting.stopped || !waiting.feed.empty()) loop.Stop();
            });
          },
          control::ControlServer::Limits(), options.tls));
  LEAT_ASSIGN_OR_RETURN(const std::string address,
                        net::AdvertisedAddress(options.advertise, server->address()));
  launcher::SignalWatch signals([&](int) {
    loop.Post([&] {
      waiting.stopped = true;
      loop.Stop();
    });
  });
  spdlog::info("the coordinator serves on {} and waits for a feed with the job's files", address);
  loop.Run();
  if (waiting.stopped) return Status(Code::kAborted, "stopped before a feed came");
  FoundFeed found{.listen = server->address(), .address = waiting.feed, .found = ""};
  spdlog::info("the stream is read from the feed {}", found.address);
  feed::Client client(FeedsAt(std::make_shared<FeedAddresses>(std::vector{found.address}), options, 0));
  LEAT_ASSIGN_OR_RETURN(found.found, feed::Describe(client));
  return found;
}

Status FetchAssets(const CoordinatorOptions& options, const std::string& job) {
  const Config resolved = Config::Parse(job, "job").At(job::kResolved);
  const std::string directory = resolved.String("directory", "");
  for (const job::Asset& asset : job::ReadAssets(resolved)) {
    const Status own = job::CheckAsset(asset);
    if (own.ok()) continue;
    const std::filesystem::path path = job::KeptAsset(directory, asset.identity);
    LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(path.parent_path()));
    const auto feeds = FeedsAt(std::make_shared<FeedAddresses>(std::vector{options.feed}), options, 0);
    LEAT_RETURN_IF_ERROR(FetchFromFeeds(feeds, asset, path));
    LEAT_RETURN_IF_ERROR(checkpoint::SyncDirectory(path.parent_path()));
    spdlog::info("{}; a copy of {} bytes is fetched from the feed {}", own.message(),
                 std::filesystem::file_size(path), options.feed);
  }
  return {};
}

}  // namespace leat::roles

#include "roles/input/open_stream.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <variant>

#include "control/client.h"
#include "feed/remote_source.h"
#include "net/address.h"
#include "net/tcp/tcp.h"
#include "roles/role.h"

namespace leat::roles {
namespace {

constexpr Duration kFindDeadline = std::chrono::seconds(3);

Result<protocol::JobReply> Ask(control::ControlClient& client, const CoordinatorClientOptions& options,
                               Duration deadline) {
  LEAT_ASSIGN_OR_RETURN(auto reply, client.Call(protocol::JobRequest{ProgramVersion()}, deadline));
  auto* job = std::get_if<protocol::JobReply>(&reply);
  if (job == nullptr) return Status(Code::kInternal, "the coordinator sent a reply of the wrong type");
  if (!job->status.ok()) return job->status;
  for (std::string& feed : job->feeds) {
    if (feed.starts_with(':')) feed = std::string(net::HostOf(options.coordinator)) + feed;
  }
  return std::move(*job);
}

feed::ClientOptions FeedOptions(const job::Job& job, const RoleOptions& options) {
  feed::ClientOptions feed;
  feed.content = job.InputsHash();
  feed.make_transport = [transport = TransportOf(options, wire::PortKind::kFeed)](net::Loop& loop) {
    return net::MakeTcpTransport(loop, transport);
  };
  std::shared_ptr<control::ControlClient> client =
      control::ControlClient::Make(options.coordinator_client.coordinator, options.coordinator_client.token,
                                   options.coordinator_client.tls);
  feed.find_feeds = [client, coordinator = options.coordinator_client]() -> Result<std::vector<std::string>> {
    LEAT_ASSIGN_OR_RETURN(protocol::JobReply reply, Ask(*client, coordinator, kFindDeadline));
    return std::move(reply.feeds);
  };
  return feed;
}

Result<std::unique_ptr<stream::Source>> OpenOwn(const job::Job& job) {
  LEAT_RETURN_IF_ERROR(job.CheckInputs());
  return job.stream.Open();
}

}  // namespace

void OpenedStream::Count(protocol::WorkerProgress* progress) const {
  if (feed == nullptr) return;
  progress->feed_bytes = feed->counts().bytes;
  progress->feed_retries = feed->counts().retries;
}

Result<protocol::JobReply> AskForJob(const CoordinatorClientOptions& options, Duration deadline) {
  const auto client = control::ControlClient::Make(options.coordinator, options.token, options.tls);
  return Ask(*client, options, deadline);
}

Result<OpenedStream> OpenStream(const job::Job& job, const RoleOptions& options) {
  auto own = OpenOwn(job);
  if (own.ok()) return OpenedStream{std::move(*own), nullptr};
  const auto feed = FeedOptions(job, options);
  const auto addresses = feed.find_feeds();
  if (!addresses.ok() || addresses->empty()) return own.status();
  auto client = std::make_shared<feed::Client>(feed);
  OpenedStream stream{feed::MakeRemoteSource(client), client};
  // A feed that does not answer in time may do so later. One that cannot open the stream either is no help.
  const auto ranges = stream.source->Ranges();
  if (!ranges.ok() && ranges.status().code() != Code::kUnavailable) return own.status();
  spdlog::warn("{}; the stream is read from a feed", own.status().message());
  return stream;
}

}  // namespace leat::roles

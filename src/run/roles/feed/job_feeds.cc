#include "run/roles/feed/job_feeds.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "net/address.h"
#include "net/rpc/client.h"
#include "net/transports.h"
#include "run/roles/role.h"

namespace leat::roles {
namespace {

constexpr Duration kFindDeadline = std::chrono::seconds(3);

Result<protocol::JobReply> Ask(control::ControlClient& client, Duration deadline) {
  LEAT_ASSIGN_OR_RETURN(auto reply, client.Call(protocol::JobRequest{ProgramVersion()}, deadline));
  auto* job = std::get_if<protocol::JobReply>(&reply);
  if (job == nullptr) return Status(Code::kInternal, "the coordinator sent a reply of the wrong type");
  if (!job->status.ok()) return job->status;
  for (std::string& feed : job->feeds) {
    if (feed.starts_with(':')) feed = std::string(net::HostOf(client.address())) + feed;
  }
  return std::move(*job);
}

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

}  // namespace leat::roles

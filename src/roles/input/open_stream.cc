#include "roles/input/open_stream.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "feed/remote_source.h"
#include "roles/feed/job_feeds.h"

namespace leat::roles {
namespace {

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

Result<OpenedStream> OpenStream(const job::Job& job, const RoleOptions& options) {
  auto own = OpenOwn(job);
  if (own.ok()) return OpenedStream{std::move(*own), nullptr};
  const auto feed =
      FeedsOf(options.coordinator_client, TransportOf(options, wire::PortKind::kFeed), job.InputsHash());
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

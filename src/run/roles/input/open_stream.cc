#include "run/roles/input/open_stream.h"

#include <utility>

#include "base/log.h"
#include "run/feed/remote_source.h"
#include "run/roles/feed/job_feeds.h"
#include "run/roles/role.h"

namespace leat::roles {
namespace {

Result<std::unique_ptr<stream::Source>> OpenOwn(const job::Job& job, const topology::HostPlace& place) {
  LEAT_RETURN_IF_ERROR(job.CheckInputs());
  return job.StreamIn(ZoneOf(job, place)).Open();
}

Result<std::shared_ptr<stream::DeadLetterSink>> OpenDeadLetters(const job::Job& job) {
  const job::KafkaStream* const kafka = job.stream.kafka();
  if (kafka == nullptr || kafka->dead_letters.empty()) return std::shared_ptr<stream::DeadLetterSink>();
  LEAT_ASSIGN_OR_RETURN(auto sink, kafka->OpenDeadLetters());
  return std::shared_ptr<stream::DeadLetterSink>(std::move(sink));
}

}  // namespace

void OpenedStream::Count(protocol::WorkerProgress* progress) const {
  if (feed == nullptr) return;
  progress->feed_bytes = feed->counts().bytes;
  progress->feed_retries = feed->counts().retries;
}

Result<OpenedStream> OpenStream(const job::Job& job, const RoleOptions& options) {
  auto own = OpenOwn(job, options.coordinator_client.place);
  if (own.ok()) {
    LEAT_ASSIGN_OR_RETURN(auto dead_letters, OpenDeadLetters(job));
    return OpenedStream{std::move(*own), nullptr, std::move(dead_letters)};
  }
  const auto feed =
      FeedsOf(options.coordinator_client, TransportOf(options, feed::FeedPort()), job.InputsHash());
  const auto addresses = feed.find_feeds();
  if (!addresses.ok() || addresses->empty()) return own.status();
  auto client = std::make_shared<feed::Client>(feed);
  OpenedStream stream{feed::MakeRemoteSource(client), client, nullptr};
  // A feed that does not answer in time may do so later. A feed that cannot open the stream either is no
  // help.
  const auto ranges = stream.source->Ranges();
  if (!ranges.ok() && ranges.status().code() != Code::kUnavailable) return own.status();
  spdlog::warn("{}; the stream is read from a feed", own.status().message());
  return stream;
}

}  // namespace leat::roles

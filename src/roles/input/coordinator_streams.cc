#include "roles/input/coordinator_streams.h"

#include <utility>

#include "feed/remote_source.h"

namespace leat::roles {

Result<CoordinatorStreams> OpenOnThisHost(const job::Job& job) {
  CoordinatorStreams streams;
  LEAT_RETURN_IF_ERROR(job.stream.Prepare());
  LEAT_ASSIGN_OR_RETURN(streams.source, job.stream.Open());
  streams.remote = job.stream.kafka() != nullptr;
  if (job.stream.files() == nullptr) {
    LEAT_ASSIGN_OR_RETURN(streams.background, job.stream.Open());
  }
  return streams;
}

CoordinatorStreams OpenAtFeed(const job::Job& job, const CoordinatorOptions& options) {
  CoordinatorStreams streams;
  streams.remote = true;
  streams.feeds = std::make_shared<FeedAddresses>(std::vector{options.feed});
  for (auto* source : {&streams.source, &streams.background}) {
    streams.clients.push_back(MakeFeedClient(streams.feeds, options, job.InputsHash()));
    *source = feed::MakeRemoteSource(streams.clients.back());
  }
  return streams;
}

}  // namespace leat::roles

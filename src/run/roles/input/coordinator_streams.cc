#include "run/roles/input/coordinator_streams.h"

#include <set>
#include <string>
#include <utility>

#include "base/log.h"
#include "run/feed/client.h"

namespace leat::roles {

Status PrepareStream(bool resume, job::Job* job) {
  LEAT_RETURN_IF_ERROR(job->stream->Prepare());
  std::string warning;
  LEAT_RETURN_IF_ERROR(job->stream->Check(job->checkpoint_interval_s, &warning));
  if (!warning.empty()) spdlog::warn("{}", warning);
  if (resume) return {};
  LEAT_ASSIGN_OR_RETURN(const auto bounds, job->stream->FindBounds());
  if (!bounds.start.empty()) *job = job->WithBounds(bounds);
  return {};
}

Result<CoordinatorStreams> OpenOnThisHost(const job::Job& job) {
  CoordinatorStreams streams;
  LEAT_ASSIGN_OR_RETURN(streams.source, job.stream->Open());
  const job::StreamTraits& traits = job.stream->traits();
  streams.remote = traits.remote;
  if (traits.fingerprints) {
    LEAT_ASSIGN_OR_RETURN(streams.fingerprints, job.stream->OpenEvents(""));
  }
  if (traits.upkeep) {
    LEAT_ASSIGN_OR_RETURN(streams.background, job.stream->OpenEvents(job.name));  // the group of its commits
  }
  return streams;
}

std::vector<topology::PartitionPlaces> FindPartitionPlaces(const job::Job& job) {
  if (job.topology.brokers.empty()) return {};
  const auto replicas = job.stream->Replicas();
  if (!replicas.ok()) {
    spdlog::warn("it is not known where the partitions are: {}", replicas.status().message());
    return {};
  }
  std::vector<topology::PartitionPlaces> places;
  std::set<int32_t> unknown;
  for (const std::vector<int32_t>& brokers : *replicas) {
    topology::PartitionPlaces& copies = places.emplace_back();
    for (const int32_t broker : brokers) {
      if (const auto at = job.topology.brokers.find(broker); at != job.topology.brokers.end()) {
        copies.push_back(at->second);
      } else {
        unknown.insert(broker);
      }
    }
  }
  for (const int32_t broker : unknown)
    spdlog::warn("topology: brokers does not have broker {}, which has partitions of the topic", broker);
  return places;
}

CoordinatorStreams OpenAtFeed(const job::Job& job, const CoordinatorOptions& options) {
  CoordinatorStreams streams;
  streams.remote = true;
  streams.feeds = std::make_shared<FeedAddresses>(std::vector{options.feed});
  for (auto* source : {&streams.source, &streams.background, &streams.fingerprints}) {
    streams.clients.push_back(MakeFeedClient(streams.feeds, options, job.InputsHash()));
    *source = feed::MakeRemoteSource(streams.clients.back());
  }
  return streams;
}

}  // namespace leat::roles

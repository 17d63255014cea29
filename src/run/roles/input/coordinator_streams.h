// Where the coordinator looks at the job's stream: on its own host, or at a feed.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "job/job.h"
#include "protocol/topology/near_partitions.h"
#include "run/feed/client.h"
#include "run/roles/coordinator_role.h"
#include "run/roles/feed/wait_for_feed.h"
#include "run/roles/start/coordinator_options.h"
#include "stream/source.h"

namespace leat::roles {

// Sources of the stream, one for each thread that uses it.
struct CoordinatorStreams {
  std::unique_ptr<stream::Source> source;  // used by the loop's thread
  // A topic's second source, for syncs, pins and commits on the background thread. Null for files, for which
  // there is nothing to do.
  std::unique_ptr<stream::Source> background;
  // For fingerprints, on a thread of their own. Null for a local stream, which has none.
  std::unique_ptr<stream::Source> fingerprints;
  // If the stream is on another host: the addresses of the feeds, and the clients that the sources read
  // through.
  std::shared_ptr<FeedAddresses> feeds;
  std::vector<std::shared_ptr<feed::Client>> clients;

  bool remote = false;  // a call may take long, because another host answers it
  stream::Source& for_background() const { return background != nullptr ? *background : *source; }
};

// Makes the topic that bots write to. Checks the stream, and finds where it begins and ends for a new job. An
// error names what is wrong.
Status PrepareStream(bool resume, job::Job* job);

// An error names what cannot be opened.
Result<CoordinatorStreams> OpenOnThisHost(const job::Job& job);

// Where the copies of the partitions are (CoordinatorConfig::partition_places), if the job says where brokers
// are. Empty: not known.
std::vector<topology::PartitionPlaces> FindPartitionPlaces(const job::Job& job);

CoordinatorStreams OpenAtFeed(const job::Job& job, const CoordinatorOptions& options);

}  // namespace leat::roles

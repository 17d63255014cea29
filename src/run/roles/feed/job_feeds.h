// The feeds of a role's job, and the files that its model is built from, on a host that may not have them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "job/job.h"
#include "net/transport.h"
#include "protocol/messages_control.h"
#include "run/feed/client.h"
#include "run/feed/server.h"
#include "run/roles/coordinator_client.h"
#include "run/roles/role.h"
#include "run/roles/start/coordinator_options.h"

namespace leat::roles {

// The job, and the addresses of its feeds. Blocks for at most `deadline`.
Result<protocol::JobReply> AskForJob(const CoordinatorClientOptions& options, Duration deadline);

// The options of a client that asks the coordinator for the job's feeds. `content`: Job::InputsHash, or 0.
feed::ClientOptions FeedsOf(const CoordinatorClientOptions& options, net::TransportOptions transport,
                            uint64_t content);

// Fetches a file from the feeds. If the copy of one of them is gone or has changed, it asks others, until the
// deadline of `feeds`. Blocks. The errors of feed::FetchAsset.
Status FetchFromFeeds(const feed::ClientOptions& feeds, const job::Asset& asset, const std::string& path);

// As a feed serves them.
std::vector<feed::Asset> ServedAssets(const job::Job& job);

// Keeps the files that it has fetched as long as it lives. Not thread-safe.
class ModelFiles {
 public:
  struct Options {
    std::function<feed::ClientOptions()> feeds;  // called if there is something to fetch
    std::string scratch;  // the parent of the scratch directory for fetched files; empty: $TMPDIR
  };
  explicit ModelFiles(Options options) : options_(std::move(options)) {}

  // The paths of the files that the job's own paths do not lead to, for Job::FromResolved. A file that this
  // host lacks, or that is not the job's, is fetched once. Blocks. kInvalidArgument: there is no place for
  // it.
  Result<nn::LayerFiles::Copies> Find(const std::vector<job::Asset>& assets);

 private:
  const Options options_;
  std::unique_ptr<Scratch> scratch_;  // null: nothing has been fetched
};

// ---- a coordinator on a host without its job's input, which waits for a feed first

// The addresses of a job's feeds, for clients on any thread. Thread-safe.
class FeedAddresses {
 public:
  explicit FeedAddresses(std::vector<std::string> addresses) : addresses_(std::move(addresses)) {}
  void Set(std::vector<std::string> addresses) {
    std::lock_guard lock(mutex_);
    addresses_ = std::move(addresses);
  }
  std::vector<std::string> Get() const {
    std::lock_guard lock(mutex_);
    return addresses_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> addresses_;
};

// The options of a client of these feeds in the coordinator's process. `content`: Job::InputsHash, or 0.
feed::ClientOptions FeedsAt(std::shared_ptr<const FeedAddresses> addresses,
                            const CoordinatorOptions& coordinator, uint64_t content);

struct FoundFeed {
  std::string listen;   // the coordinator's address, which others may have been told already
  std::string address;  // address of the feed
  std::string found;    // Job::Found
};

// Serves as the coordinator of the job until a feed has opened its files. `job` is the text of
// Job::WithoutFiles. All other roles are told to wait. kAborted: a signal came first.
Result<FoundFeed> WaitForFeed(const CoordinatorOptions& options, const std::string& job);

// Fetches the files of the model that the coordinator's host lacks from that feed (CoordinatorOptions::feed)
// into the job's directory. `job`: the text of Job::WithoutFiles with what the feed has found.
Status FetchAssets(const CoordinatorOptions& options, const std::string& job);

}  // namespace leat::roles

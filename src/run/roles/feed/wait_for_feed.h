// A coordinator on a host without its job's input waits for a feed first.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "job/job.h"
#include "run/feed/client.h"
#include "run/roles/coordinator_role.h"
#include "run/roles/start/coordinator_options.h"

namespace leat::roles {

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

// A client of these feeds in the coordinator's process. `content`: Job::InputsHash.
std::shared_ptr<feed::Client> MakeFeedClient(std::shared_ptr<const FeedAddresses> addresses,
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

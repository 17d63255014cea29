// The files that a job's model is built from, on a host that may not have them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "job/job.h"
#include "run/feed/client.h"
#include "run/feed/server.h"
#include "run/roles/shards/scratch.h"

namespace leat::roles {

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

}  // namespace leat::roles

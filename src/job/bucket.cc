#include "job/bucket.h"

#include <stdexcept>

#include "base/exit_status.h"
#include "storage/checkpoint/bucket/bucket.h"
#include "storage/checkpoint/journal.h"

namespace leat::job {
namespace {

// Limit of a request at the start: somebody waits for it.
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr Duration kPatienceForBytes = std::chrono::minutes(5);

std::unique_ptr<object_store::ObjectStore> Open(const object_store::Settings& settings, Duration patience) {
  object_store::StoreOptions options;
  options.retries.deadline = patience;
  return OrThrow(object_store::OpenS3(settings, options));
}

}  // namespace

bool IsBucket(const std::string& resume) {
  return resume.starts_with("s3://");
}

uint64_t CheckBucket(const Job& job, bool resume) {
  if (!job.checkpoint_to) return 0;
  const auto store = Open(*job.checkpoint_to, kPatience);
  const auto found = OrThrow(checkpoint::LookAtBucket(*store));
  const std::string where = object_store::Location(store->settings());
  if (!resume) {
    if (found.complete.empty()) return found.highest_term + 1;
    throw std::invalid_argument(where + " has the checkpoints of a job already: continue it with --resume " +
                                where + ", or name another prefix");
  }
  const auto claimed = checkpoint::NewestClaimed(job.directory);
  if (claimed.ok() && claimed->term < found.highest_term) {
    throw std::invalid_argument(where + ": a coordinator of term " + std::to_string(found.highest_term) +
                                " has gone on with the job, which " + job.directory +
                                " has only up to term " + std::to_string(claimed->term) +
                                "; resume it with --resume " + where);
  }
  return 0;
}

void FetchFromBucket(const std::string& location, const std::string& job_file, const std::string& directory) {
  auto settings = object_store::ParseLocation(location);
  if (!settings.ok()) Throw(settings.status().With("--resume"));
  if (directory.empty())
    throw std::invalid_argument("--resume " + location +
                                " needs --directory, an empty one for the checkpoint");
  if (!job_file.empty()) {
    const Config config = Config::ParseFile(job_file);
    if (const auto own = CheckpointBucket(config)) {
      if (object_store::Location(*own) != object_store::Location(*settings)) {
        throw std::invalid_argument("--resume " + location + ", but the checkpoints of " + job_file +
                                    " are in " + object_store::Location(*own));
      }
      settings = *own;
    }
  }
  const auto store = Open(*settings, kPatienceForBytes);
  if (const Status fetched = checkpoint::FetchJob(*store, directory); !fetched.ok()) Throw(fetched);
}

}  // namespace leat::job

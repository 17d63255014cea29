#include "job/resume.h"

#include <algorithm>
#include <stdexcept>

#include "base/exit_status.h"
#include "base/text.h"
#include "storage/checkpoint/bucket/bucket.h"
#include "storage/checkpoint/journal.h"

namespace leat::job {
namespace {

// By partition: every offset below may have been used by the job.
std::vector<uint64_t> UsedOffsets(const protocol::RecoveredState& restored, size_t partitions) {
  std::vector<uint64_t> used(partitions, 0);
  const auto use = [&](size_t partition, uint64_t end) {
    if (partition < partitions) used[partition] = std::max(used[partition], end);
  };
  const auto use_cuts = [&](const std::vector<protocol::Cut>& cuts) {
    for (const auto& cut : cuts) use(cut.partition, cut.end);
  };
  const auto use_positions = [&](const std::vector<protocol::Position>& positions) {
    for (size_t p = 0; p < positions.size(); ++p) use(p, positions[p].offset);
  };
  for (const auto& record : restored.journal) {
    if (const auto* made = std::get_if<protocol::CutsMade>(&record)) {
      use_cuts(made->cuts);
    } else if (const auto* round = std::get_if<protocol::RoundMade>(&record)) {
      for (const auto& lane : round->lanes) use(lane.cut.partition, lane.cut.end);
    } else if (const auto* marked = std::get_if<protocol::LabelsMarked>(&record)) {
      for (const auto& mark : marked->marks) use(marked->partition, mark.events);
    } else if (const auto* start = std::get_if<protocol::StreamStart>(&record)) {
      use_positions(start->start);
    }
  }
  if (restored.manifest) {
    use_positions(restored.manifest->watermark);
    use_cuts(restored.manifest->open);
  }
  return used;
}

std::string Remedy(Loss loss) {
  return loss == Loss::kRefusedBySetting ? "; 'fail_on_data_loss: false' continues without them" : "";
}

// Records that retention has removed although the job has not trained them.
void CheckNotExpired(const Job& job, const protocol::RecoveredState& restored,
                     const stream::PartitionRange& range) {
  const Loss expired = job.stream->loss_rules().expired;
  if (expired == Loss::kAccepted || !restored.manifest ||
      range.partition >= restored.manifest->watermark.size())
    return;
  const uint64_t trained = restored.manifest->watermark[range.partition].offset;
  if (trained >= range.begin) return;
  throw std::invalid_argument(StrCat(job.stream->Describe(), " partition ", range.partition,
                                     " begins at offset ", range.begin, ", but job '", job.name,
                                     "' has trained only the records before ", trained, ": ",
                                     range.begin - trained, " records have expired", Remedy(expired)));
}

// The settings, in an order that does not depend on how the job was loaded. A job that is resumed names some
// that others leave to their defaults: these are compared by their values.
std::string Settings(const Job& job) {
  std::string text = job.config.Without(kResolved).ToYaml();
  const Config resolved = job.config.At(kResolved);
  std::vector<std::string> keys = resolved.Keys();
  std::ranges::sort(keys);
  for (const std::string& key : keys) {
    const bool by_value =
        key == "workers" || key == "ps" || key == "max_ps" || key == "rate" || key == "events";
    // Each coordinator has its own places; Identity compares their content.
    const bool place = key == "directory" || key == "data";
    if (!by_value && !place) text += Config::EmptyMap("").With(key, resolved.At(key)).ToYaml();
  }
  for (const uint32_t count : {job.workers, job.max_workers, job.servers, job.max_servers})
    text += StrCat(count, " ");
  if (const stream::BotsConfig* bots = job.stream->bots(); bots != nullptr)
    text += StrCat(bots->rate, " ", bots->events);
  return text;
}

// Limit of a request at the start: somebody waits for it.
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr Duration kPatienceForBytes = std::chrono::minutes(5);

std::unique_ptr<object_store::ObjectStore> Open(const object_store::Settings& settings, Duration patience) {
  object_store::StoreOptions options;
  options.retries.deadline = patience;
  return OrThrow(object_store::OpenS3(settings, options));
}

}  // namespace

Job ReadStored(const std::string& directory) {
  return Job::FromResolved(OrThrow(checkpoint::ReadJob(directory)), directory + "/job.yaml");
}

Job ReadStoredWithoutModel(const std::string& directory) {
  return Job::WithoutModel(OrThrow(checkpoint::ReadJob(directory)), directory + "/job.yaml");
}

bool SameJob(const std::string& a, const std::string& b) {
  return a == b || Settings(Job::WithoutModel(a, "job")) == Settings(Job::WithoutModel(b, "job"));
}

bool SameAsStored(const Job& job) {
  return Settings(ReadStoredWithoutModel(job.directory)) == Settings(job);
}

checkpoint::IntactCheckpoint CheckResumable(const Job& job) {
  const auto now = job.Identity();
  const auto then = ReadStored(job.directory).Identity();
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].second == then[i].second) continue;
    const auto short_one = [](const std::string& value) {
      return value.size() < 40 && value.find('\n') == value.npos;
    };
    const bool both = short_one(now[i].second) && short_one(then[i].second);
    throw std::invalid_argument("'" + now[i].first + "' of job '" + job.name +
                                (both ? "' is '" + now[i].second + "' and" : "'") +
                                " differs from the job that " + job.directory + " was made by" +
                                (both ? " ('" + then[i].second + "')" : "") + "; resume needs the same");
  }
  return OrThrow(checkpoint::Verify(job.directory));
}

std::string DamageNote(const Job& job, const checkpoint::IntactCheckpoint& found) {
  const std::string note = checkpoint::UsedInstead(found);
  if (note.empty()) return note;
  return note + "; kept aside as " + Joined(found.damaged, ", ", [&](const auto& damaged) {
           return job.directory + "/" + checkpoint::AsideName(damaged.id);
         });
}

void CheckNoDataLoss(const Job& job, const protocol::RecoveredState& restored, stream::Source& source,
                     Time now, std::optional<Time>* short_since,
                     std::vector<stream::PartitionRange>* ranges) {
  const auto used = UsedOffsets(restored, ranges->size());
  const LossRules rules = job.stream->loss_rules();
  for (size_t p = 0; p < ranges->size(); ++p) {
    stream::PartitionRange& range = (*ranges)[p];
    CheckNotExpired(job, restored, range);
    if (range.end >= used[p]) continue;
    if (rules.shortened != Loss::kAccepted) {
      const std::string found =
          StrCat(job.stream->Describe(), " partition ", range.partition, " ends at offset ", range.end,
                 ", but job '", job.name, "' has used the offsets before ", used[p]);
      if (!*short_since) *short_since = now;
      if (now - **short_since < rules.leader_change)
        Throw({Code::kUnavailable, found + ": its leader may be new, and is asked again"});
      throw std::invalid_argument(found + ": records are lost" + Remedy(rules.shortened));
    }
    if (const Status advanced = source.Advance(range.partition, used[p]); !advanced.ok()) Throw(advanced);
    range.end = used[p];
  }
  short_since->reset();
}

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
    throw std::invalid_argument(
        StrCat(where, ": a coordinator of term ", found.highest_term, " has gone on with the job, which ",
               job.directory, " has only up to term ", claimed->term, "; resume it with --resume ", where));
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

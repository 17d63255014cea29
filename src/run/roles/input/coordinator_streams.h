// Where the coordinator looks at the job's stream: on its own host, or at a feed. A resumed job keeps the
// part of its stream that it may still need, and is refused if that is gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "job/job.h"
#include "protocol/coordinator/coordinator_settings.h"
#include "protocol/records/journal.h"
#include "protocol/records/manifest.h"
#include "protocol/topology/near_partitions.h"
#include "run/feed/client.h"
#include "run/roles/background_thread.h"
#include "run/roles/feed/job_feeds.h"
#include "run/roles/start/coordinator_options.h"
#include "storage/checkpoint/store.h"
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

// Keeps retention from removing what the job may still want: everything from its oldest checkpoint on, as far
// as it is there, because that one may have to take the place of the newest. Also for a new job, which wants
// everything. kNotFound if records are gone that the checkpoint needs from which the job continues.
Status PinStream(const job::Job& job, stream::Source& source, const protocol::RecoveredState& restored,
                 const std::vector<stream::PartitionRange>& ranges);

// Calls `check`, which throws std::invalid_argument if the job cannot continue from the restored checkpoint.
// The error then also says why no newer one is used.
void WithDamage(const checkpoint::IntactCheckpoint& found, const std::function<void()>& check);

// ---- fingerprints of records that are trained

// Finds out that a topic was deleted and made again under its name: its offsets would count as trained,
// although other records have them. kDataLoss: a partition has another record than when one of these was
// taken; the message names it. Records that retention has removed since cannot be compared. Blocks as
// Source::Fingerprint does, once for each partition.
Status CheckFingerprints(stream::Source& source, std::span<const protocol::Fingerprint> taken);

// The fingerprints at the watermark, or the last ones where the source knows none. Checks the last ones
// first.
Result<std::vector<protocol::Fingerprint>> TakeFingerprints(stream::Source& source,
                                                            std::span<const protocol::Position> watermark,
                                                            std::span<const protocol::Fingerprint> last);

// How far the job's stream reaches, with its label marks: the coordinator asks its source again and again,
// less often while nothing changes. A source that cannot be asked for a moment is asked again; a source that
// has all that it will ever have is not. Also takes the fingerprints of records that are trained. Loop's
// thread only.
class StreamWatch {
 public:
  struct Options {
    std::string name;                  // names the stream in errors
    std::string feed;                  // the feed that the job reads from, before any is a member
    std::vector<uint32_t> partitions;  // their numbers
    std::vector<protocol::Fingerprint> fingerprints;  // as of the checkpoint that the job continues from
    std::function<std::vector<protocol::LabelMarksWanted>()> label_marks;
    std::function<void(const std::vector<protocol::StreamRange>&)> on_ranges;
    std::function<void(const std::string& line)> on_unasked;  // partitions that cannot be asked; empty: none
    // kDataLoss: what the job has trained is not in the stream any more.
    std::function<void(const Status&)> on_failure;
  };
  // `others`: the thread that asks a stream on other hosts; it ends before this object.
  StreamWatch(LoopWork& work, BackgroundThread& others, CoordinatorStreams& streams, Options options);

  void Start() { Poll(); }
  const std::vector<uint32_t>& partitions() const { return options_.partitions; }
  // The members that are feeds now.
  void OnView(const protocol::View& view);
  // Text for the status, if the stream cannot be asked for a while; empty: nothing.
  std::string WaitsFor(Time now) const;

  // A checkpoint begins at this watermark: takes its fingerprints, if the stream has any.
  void TakeFingerprints(std::vector<protocol::Position> watermark);
  const std::vector<protocol::Fingerprint>& fingerprints() const { return fingerprints_; }

 private:
  using Ranges = std::vector<stream::PartitionRange>;

  void Poll();
  void OnRanges(const Result<Ranges>& ranges);

  // The pause between two looks at the stream: the first while it grows; it doubles, to the second, while
  // nothing changes.
  static constexpr Duration kPause = std::chrono::milliseconds(50);
  static constexpr Duration kQuietPause = std::chrono::milliseconds(300);

  LoopWork& work_;
  BackgroundThread& others_;
  CoordinatorStreams& streams_;
  const Options options_;
  Ranges ranges_;  // the last ones
  Duration pause_ = kPause;
  std::optional<Time> away_since_;  // no partition can be asked
  std::string away_;                // why the last time
  std::string unasked_;             // as last logged
  std::vector<protocol::Fingerprint> fingerprints_;
  bool fingerprinting_ = false;
  BackgroundThread fingerprint_thread_;  // fingerprints of a thousand partitions take many seconds
};

}  // namespace leat::roles

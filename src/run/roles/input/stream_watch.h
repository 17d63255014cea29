// How far the job's stream reaches, with its label marks: the coordinator asks its source again and again,
// less often while nothing changes. A source that cannot be asked for a moment is asked again; a source that
// has all that it will ever have is not. Also takes the fingerprints of records that are trained
// (fingerprints.h). Loop's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/records/manifest.h"
#include "run/roles/background_thread.h"
#include "run/roles/input/coordinator_streams.h"
#include "run/roles/input/fingerprints.h"

namespace leat::roles {

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
  void LogUnasked();

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
  FingerprintThread fingerprint_thread_;  // uses the members above
};

}  // namespace leat::roles

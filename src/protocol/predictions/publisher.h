// The scores of one partition's events on their way to the predictions topic: whole splits, in the order of
// their offsets, each event once.
//
// Workers send the scores of a run before they push its gradients. Scores wait until their split is whole and
// all events before it are published. Then they are written in one transaction, which also commits how far
// the partition is published; so the topic itself says where to go on after any failure. If a run is scored
// again, the first scores stand.
//
// Pure state; the shell writes. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fields/fields.h"
#include "base/status.h"
#include "protocol/cut.h"
#include "protocol/ledger.h"

namespace leat::protocol {

// The scores of one run's good records, made before any of them is trained.
struct RunScores {
  Cut cut;
  uint32_t run = 0;
  bool rescored = false;                         // made again, by a model that had trained these events
  uint32_t width = 1;                            // scores of each event
  std::vector<uint32_t> events;                  // their offsets after cut.begin, in any order
  std::vector<float> scores;                     // events × width
  std::vector<std::optional<std::string>> keys;  // a key for each event
  // Whether it is consistent: a run of the cut, events within it, each once. Check all from a peer.
  bool valid() const;
};
LEAT_FIELDS(RunScores, (cut), (run), (rescored), (width), (events, AtMost(Cut::kMaxEvents)),
            (scores, AtMost(Cut::kMaxEvents)), (keys, AtMost(Cut::kMaxEvents), Each(AtMost(1 << 20))));
Status Check(const RunScores& scores);

class PartitionPublisher {
 public:
  // `published`: all events before it are in the topic.
  PartitionPublisher(uint32_t partition, uint64_t published) : partition_(partition), published_(published) {}

  // kStale: the run is published, or waits already. Scores must be valid and of this partition.
  Status Take(RunScores scores);

  struct Prediction {
    uint64_t offset = 0;
    const std::optional<std::string>* key = nullptr;
    const float* scores = nullptr;
    uint32_t width = 0;
    bool rescored = false;
  };
  // The predictions that can be written now: the events of [begin, end), without dead letters, in the order
  // of offsets.
  struct Publication {
    uint64_t begin = 0;
    uint64_t end = 0;
    std::vector<Prediction> predictions;  // valid until OnPublished
  };
  // At most about `most` events, but at least one split. None while the last publication is not done, or if
  // the next split is not whole.
  std::optional<Publication> Next(size_t most);
  // The publication is committed, or nothing of it is.
  void OnPublished(bool committed) {
    const uint64_t end = std::exchange(writing_, 0);
    if (committed && end != 0) DropBefore(end);
  }
  // All events before `published` are in the topic, and none of the others, whoever has published them.
  void Restart(uint64_t published) {
    writing_ = 0;
    DropBefore(published);
  }

  uint64_t published() const { return published_; }
  uint64_t rescored() const { return rescored_; }  // events published with scores that were made again
  size_t waiting() const { return waiting_; }      // events
  // The first splits that wait, at most so many, with the runs that are here.
  std::vector<OpenSplit> Held(size_t most) const;

 private:
  void DropBefore(uint64_t published);

  struct Split {
    Cut cut;
    RunSet runs;
    std::map<uint32_t, RunScores> scores;  // by run
  };

  uint32_t partition_;
  uint64_t published_;
  uint64_t rescored_ = 0;
  size_t waiting_ = 0;
  std::map<uint64_t, Split> splits_;  // by begin
  uint64_t writing_ = 0;              // the end of the publication; 0: there is none
};

}  // namespace leat::protocol

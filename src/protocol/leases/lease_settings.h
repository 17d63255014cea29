// The job's settings of its stream and of its leases, and their rows of the coordinator's status. Plain data.
// Rules are those settings that a job's file gives (coordinator/job_rules.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "protocol/cut.h"
#include "protocol/messages_control.h"
#include "protocol/topology/near_partitions.h"

namespace leat::protocol {

// The current contents of a partition, as found by the shell.
struct StreamRange {
  uint32_t partition = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool sealed = false;
  // Late labels: the marks after the last one that the coordinator has (Coordinator::label_marks), in order.
  // Marks that it has may be repeated; others before the last one are kDataLoss and end the job.
  std::vector<LabelMark> marks = {};
};

// Late labels: where the marks of a partition go on.
struct LabelMarksWanted {
  std::optional<LabelMark> last;  // the last one that the coordinator has; after a restart, of the journal
  uint64_t room = 0;              // how many more it takes at present; more end the job
};

// For a while: the next `events` events, an equal share of each partition's.
struct RateRaise {
  float factor = 1;  // on the learning rate; ValidRate
  uint64_t events = 0;
};

// As in LeasePace (lease_book.h).
struct LeaseLimits {
  Duration first = std::chrono::minutes(15);
  Duration shortest = std::chrono::seconds(10);
  Duration heartbeat_interval = std::chrono::milliseconds(100);
};

struct LeaseRules {
  // An overdue lease is granted a second time. All-reduce: an overdue member leaves the job.
  LeaseLimits leases;
};

struct LeaseSettings : LeaseRules {
  CutRules cuts;
  std::vector<uint32_t> partitions;                     // numbers of the stream's partitions: 0, 1, …
  Duration tail_wait = std::chrono::milliseconds(200);  // a live tail older than this becomes a shorter split
  // Stepped strategies: the minimum number of steps leased at a time. Enough to keep workers busy while
  // servers report their progress and workers ask for more.
  uint32_t open_steps = 128;
  // Stepped strategies: a lane not requested by its worker for this long goes to any other.
  Duration lane_wait = std::chrono::milliseconds(500);
  // After splits with this many events no split is made until AdminRequest::kContinue. 0: no limit.
  uint64_t pause_at = 0;
  std::optional<RateRaise> raise;  // the raise of the learning rate by OnDrift
  // Labels come on a topic of their own, later than the events, and cuts reach up to the last label mark
  // only. Needs cuts.epochs = 1.
  bool late_labels = false;
  // By partition; empty: not known. Workers prefer the splits of partitions near them.
  std::vector<topology::PartitionPlaces> partition_places;
};

struct LeaseRows {
  uint64_t lag = 0;               // available events that are not below the watermark
  std::vector<uint64_t> ends;     // ends of the partitions, as of now
  uint64_t leases = 0;            // currently held by workers
  uint64_t regranted_leases = 0;  // leases granted again after a worker or server was lost
  uint64_t overdue_leases = 0;    // since the start
  uint32_t lanes = 0;             // lanes of the next round, without backups
  uint64_t rounds = 0;            // since the start
  uint64_t late = 0;              // runs that missed their step and are trained in another
  float rate = 1;  // factor on the learning rate of the next cuts; the highest of all partitions
  std::optional<uint64_t> unlabelled;  // late labels: events in the stream that wait for their labels
};

}  // namespace leat::protocol

// The progress of a job, combined from the reports of its processes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/metrics/auc.h"
#include "base/metrics/drift.h"
#include "compute/nn/loss.h"
#include "compute/optim/optimizer.h"
#include "protocol/coordinator/coordinator_settings.h"
#include "protocol/messages_control.h"
#include "show/report/job_status.h"
#include "show/report/worker_shares.h"

namespace leat::report {

// How far a job is behind its stream, by partition: in events, and in seconds since the oldest of them came.
// An event's age counts from when the coordinator first saw the partition reach beyond it. Events that were
// there at the start count from the start. Not thread-safe.
class Lag {
 public:
  // By partition: where it ends, and how far all slices are in their current pass.
  void OnStatus(Time now, std::span<const uint64_t> ends, std::span<const uint64_t> done);
  // Partitions that are behind, the furthest first; at most `most`.
  std::vector<PartitionLag> Behind(Time now, size_t most) const;
  // Since the first of all those events came; 0: there are none.
  Duration Oldest(Time now) const;

 private:
  // Moments at which a partition had grown; a few suffice for a precision of a few percent.
  static constexpr size_t kMoments = 64;
  struct State {
    uint64_t done = 0;
    std::deque<std::pair<Time, uint64_t>> ends;  // when it had grown, and to where
    bool behind() const { return !ends.empty() && ends.back().second > done; }
    // When the first event after `done` came. There must be one.
    Time first() const;
  };
  std::vector<State> partitions_;
};

struct DriftAlarm {
  uint64_t number = 0;  // 1 for the first of the run
  uint64_t event = 0;   // events of the job scored until then; for one worker, a position in the stream
  double mean = 0;      // mean of the detector's values before
};

// Figures that depend on the order of batches: with forgetting, and the alarms of a drift detector.
//
// The coordinator feeds them with the batches that workers report. The detector gets one value per batch, the
// mean over its events, and not one per event, for three reasons: a worker scores all events of a batch by
// the same parameters, so their order in the batch says nothing about the model; a report of each event's
// loss would cost as much as the push of a small model; and the mean is what the detectors compare anyway.
// Settings that count values (clock, min_instances) therefore count batches. With batches of one event the
// alarms are those of a detector per event.
//
// Batches of one worker come in the order in which it trained them. Batches of several workers interleave as
// their heartbeats arrive, about ten a second, which is short against any drift worth an alarm. Batches whose
// figures are not finite are left out. Not thread-safe.
class Prequential {
 public:
  struct Options {
    uint32_t labels = 1;           // per event
    std::optional<double> fading;  // factor
    std::optional<metrics::DriftConfig> drift;
  };
  struct Fading {
    double factor;
    metrics::FadingScores scores;
    metrics::FadingAuc auc;
  };
  explicit Prequential(Options options);

  // `events_before`: of the job, trained before this run.
  void Add(uint64_t events_before, const protocol::BatchScores& batch);
  // The scores of a worker so far, and those of its former report.
  void AddScores(const metrics::AucCounts& earlier, const metrics::AucCounts& now);

  // Null: not asked for.
  const Fading* fading() const { return fading_ ? &*fading_ : nullptr; }
  uint64_t alarms() const { return last_ ? last_->number : 0; }
  const std::optional<DriftAlarm>& last_alarm() const { return last_; }
  // Alarms since the last call.
  std::vector<DriftAlarm> TakeAlarms() { return std::exchange(new_alarms_, {}); }

 private:
  double DetectorValue(const protocol::BatchScores& batch) const;

  Options options_;
  std::optional<Fading> fading_;
  std::optional<metrics::DriftDetector> detector_;
  uint64_t events_ = 0;
  std::optional<DriftAlarm> last_;
  std::vector<DriftAlarm> new_alarms_;
};

// Event counts come from the ledgers of the servers. Loss, accuracy and AUC come from the workers and cover a
// window of the last events (prequential: each batch is scored before the model trains on it). Not
// thread-safe.
class Progress {
 public:
  struct Options {
    std::string job;
    nn::Task task = nn::Task::kNone;
    uint32_t labels = 1;  // per event; accuracy is the share of labels predicted correctly
    bool truth = false;   // the stream carries the true probability of class 1
    uint64_t window = 200'000;
    std::optional<double> fading;
    std::optional<metrics::DriftConfig> drift;
    std::string strategy = "async";
    uint32_t epochs = 1;
    std::vector<std::string> warnings;            // about the job's settings
    std::string directory;                        // the job's directory
    std::string metrics;                          // HOST:PORT of the coordinator's metrics; empty: none
    std::string dashboard;                        // address of the job's page; empty: there is none
    std::optional<WorkerShares::Options> shares;  // none: they are not compared
    // The job's variables and their slices, for a job with servers; null: it has none.
    std::shared_ptr<const protocol::SliceTable> table = nullptr;
    std::optional<optim::OptimizerConfig> optimizer = {};  // none: the learning rate is not shown
  };
  explicit Progress(Options options);

  // Events: a member joined, or sent a report.
  void OnJoin(Time now, NodeId node, const protocol::JoinRequest& request);
  void OnWorker(Time now, NodeId node, const protocol::WorkerProgress& progress);
  void OnServer(Time now, NodeId node, const protocol::ServerProgress& progress);
  void OnMemberReport(NodeId node, const protocol::MemberReport& report);
  // A server has reported this version of slices, which is the number of their updates.
  void OnUpdates(uint64_t version) { updates_ = std::max(updates_, version); }
  void OnFeed(Time now, NodeId node, const protocol::FeedHeartbeat& progress);
  void OnServe(Time now, NodeId node, const protocol::ServeHeartbeat& heartbeat);
  void OnBots(Time now, NodeId node, const protocol::BotsHeartbeat& progress);
  void OnMetrics(NodeId node, const std::string& address);  // address of the member's listener
  // Sets the line about partitions that cannot be asked; empty: all can.
  void SetStreamWarning(std::string line) { stream_warning_ = std::move(line); }
  // To be called periodically: records the totals at `now`, on which the windows are based. Nodes that have
  // left the view and sent nothing for kForgetAfter are forgotten; their part of the totals is kept.
  static constexpr Duration kForgetAfter = std::chrono::minutes(10);
  void OnStatus(Time now, const protocol::CoordinatorStatus& status);

  // Alarms of the drift detector since the last call.
  std::vector<DriftAlarm> TakeAlarms() { return prequential_.TakeAlarms(); }

  // Workers whose shares have become skewed, or no longer are, since the last call.
  std::vector<WorkerShares::Notice> TakeShareNotices() {
    return shares_ ? shares_->TakeNotices() : std::vector<WorkerShares::Notice>();
  }

  // How long the oldest event that some slice lacks has waited, as of the last OnStatus.
  Duration Oldest(Time now) const { return lag_.Oldest(now); }

  // Records that do not fit the schema, by what all workers have reported, and the last one with its reason.
  // A split that is read again has its dead letters reported again. Once a job has finished, the events that
  // it has not trained are known, and the count is at most their number.
  struct DeadLetters {
    uint64_t count = 0;
    std::string last;
  };
  DeadLetters dead_letters(const protocol::CoordinatorStatus& status) const;

  // Where a process runs: its host and pid; empty and 0 if it is not known.
  std::pair<std::string, int64_t> ProcessOf(NodeId node) const;
  size_t nodes() const { return nodes_.size(); }  // without forgotten ones
  JobStatus Show(Time now, const protocol::CoordinatorStatus& status, double own_cpu_seconds) const;

 private:
  class StatusMaker;

  // Sums over all workers, lost ones included, at one moment.
  struct Totals {
    protocol::WorkerProgress workers;
    metrics::AucCounts scores, truths;
  };
  // Growth of a sum per second, measured over intervals of a second or more.
  struct Rate {
    Time since{-1};
    uint64_t base = 0;
    double per_s = 0;
    void Note(Time now, uint64_t sum);
  };
  struct Node {
    protocol::Role role = protocol::Role::kWorker;
    std::string host;
    int64_t pid = 0;
    uint64_t done = 0;  // events trained, updates served, events published or requests of a feed
    double cpu_seconds = 0;
    bool ends = false;  // bots that have published everything
    // Steps and waits of a worker up to a moment.
    struct Pace {
      Time at{-1};
      uint64_t steps = 0;
      double wait = 0;  // for servers and input
    };
    Pace pace;                             // start of the interval over which its step time is measured
    Pace next_pace;                        // start of the next interval
    double busy_share = 0;                 // share of the interval without the waits
    Rate traffic;                          // traffic of a server
    Rate records, input;                   // records that a worker reads, and their bytes
    uint64_t feed_bytes = 0;               // sent by a feed
    protocol::FollowProgress follow = {};  // progress of a serve member
    // Time of a step without the waits for servers and input. 0: not known yet.
    double step_s = 0;
    Time seen{0};         // when it last joined or reported
    std::string metrics;  // HOST:PORT of its listener; empty: none
  };
  static void MeasureStep(Time now, const protocol::WorkerProgress& progress, Node* node);
  // Null: a late report, such as one of an evicted process.
  Node* Heard(Time now, NodeId node, protocol::Role role);
  Node* Heard(Time now, NodeId node, protocol::Role role, uint64_t done, double cpu_seconds);
  void Forget(Time now, const protocol::View& view);
  // Adds to sums over processes; the sum of `skipped`, which all servers count, is the largest.
  static void Add(const protocol::WorkerProgress& worker, protocol::WorkerProgress* sum);
  static void Add(const protocol::ServerProgress& server, protocol::ServerProgress* sum);
  protocol::WorkerProgress SumOfWorkers() const;
  Totals Sum() const;
  // The median step time of all workers, 0 if unknown. Workers that take much longer are reported as slow.
  double UsualStep(const protocol::View& view) const;

  // Adds the part of a report that former reports of its worker did not have.
  void TakeBatches(NodeId node, const protocol::WorkerProgress& progress);
  void TakeCounts(NodeId node, const protocol::WorkerProgress& progress);

  Options options_;
  std::string stream_warning_;
  Prequential prequential_;
  std::optional<WorkerShares> shares_;
  std::map<NodeId, uint64_t> next_batch_;  // by worker: the first batch not seen yet
  std::map<NodeId, Node> nodes_;
  std::map<NodeId, protocol::WorkerProgress> workers_;
  std::map<NodeId, std::pair<metrics::AucCounts, metrics::AucCounts>> counts_;
  std::map<NodeId, protocol::ServerProgress> servers_;
  // The sums over nodes that are forgotten.
  Totals forgotten_;
  protocol::ServerProgress forgotten_servers_;
  double forgotten_cpu_seconds_ = 0;
  Lag lag_;
  Time look_again_{0};  // for nodes to forget
  uint64_t members_skipped_ = 0;
  std::deque<Totals> moments_;                   // recent totals, oldest first, for the windows
  std::deque<std::pair<Time, uint64_t>> speed_;  // (time, events applied) of the last seconds
  Time start_{-1};
  Time training_start_{-1};
  Time last_change_{-1};       // when the number of applied events last grew
  uint64_t first_events_ = 0;  // events applied before this run
  uint64_t last_events_ = 0;
  uint64_t published_ = 0;
  uint64_t updates_ = 0;  // the most of any slice
};

}  // namespace leat::report

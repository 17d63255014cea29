// What a job has done so far, put together from what its processes report.
//
// The events that count are the servers' ledgers'; loss, accuracy and AUC are the workers', over the last
// events (prequential: each batch is scored before it is trained on). Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "metrics/auc.h"
#include "nn/loss.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::train {

class Progress {
 public:
  struct Options {
    std::string job;
    nn::Task task = nn::Task::kNone;
    uint32_t labels = 1;  // of an event: what accuracy is a share of
    bool truth = false;   // the stream carries the known probability
    uint64_t window = 200'000;
    std::string strategy = "async";
    std::vector<std::string> warnings;  // that the job runs with
    std::string directory;              // of the job
  };
  explicit Progress(Options options);

  // A member that joined, with what people want to know of it.
  void OnJoin(Time now, NodeId node, const protocol::JoinRequest& request);
  void OnWorker(Time now, NodeId node, const protocol::WorkerProgress& progress);
  void OnServer(Time now, NodeId node, const protocol::ServerProgress& progress);
  void OnMemberReport(NodeId node, const protocol::MemberReport& report);
  void OnBots(Time now, NodeId node, const protocol::BotsHeartbeat& progress);
  // To be called now and then: keeps the moments that windows look back on.
  void OnStatus(Time now, const protocol::CoordinatorStatus& status);

  // One JSON object, on one line. docs/jobs.md lists the entries.
  std::string ToJson(Time now, const protocol::CoordinatorStatus& status, double own_cpu_seconds) const;

 private:
  // Sums over all workers, dead ones included, at one moment.
  struct Totals {
    uint64_t steps = 0;
    uint64_t events = 0;
    double loss_sum = 0;
    uint64_t correct = 0;
    metrics::AucCounts scores, truths;
  };
  struct Node {
    protocol::Role role = protocol::Role::kWorker;
    std::string host;
    int64_t pid = 0;
    uint64_t done = 0;  // events trained, updates served or events published
    double cpu_seconds = 0;
    // A worker's pace is measured from here on; a server's traffic is that between the last two of these
    // moments.
    Time since{-1};
    uint64_t base = 0;
    double base_wait = 0;
    double bytes_per_s = 0;
    // Of a step, what it does not wait for servers in. 0: not known yet.
    double step_s = 0;
  };
  Totals Sum() const;
  // What a step takes workers, in the middle; 0 where that is not known of any. Who takes clearly longer is
  // slow.
  double UsualStep(const protocol::View& view) const;

  Options options_;
  std::map<NodeId, Node> nodes_;
  std::map<NodeId, protocol::WorkerProgress> workers_;
  std::map<NodeId, std::pair<metrics::AucCounts, metrics::AucCounts>> counts_;
  std::map<NodeId, protocol::ServerProgress> servers_;
  uint64_t members_skipped_ = 0;
  std::deque<Totals> moments_;                   // that windows look back on, oldest first
  std::deque<std::pair<Time, uint64_t>> speed_;  // (time, events applied) of the last seconds
  Time start_{-1};
  Time training_start_{-1};
  Time last_change_{-1};       // when the events applied last grew
  uint64_t first_events_ = 0;  // applied before this run
  uint64_t last_events_ = 0;
  uint64_t published_ = 0;
};

}  // namespace leat::train

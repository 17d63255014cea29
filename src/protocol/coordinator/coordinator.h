// The coordinator as a state machine: a router that asks each concern of protocol/ what it heard, what is
// due, and what it reports.
//
// It uses no sockets, threads, files or clock. Every input returns actions that the shell executes in order:
// a Journal record must be on disk before the Reply after it is sent. Not thread-safe.
//
// Its only source about progress is the servers' ledgers (docs/protocol/push.md). Cuts are kept from the
// watermark of the oldest kept checkpoint on, so that older slices can be trained again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/checkpoints/checkpoints.h"
#include "protocol/coordinator/job_rules.h"
#include "protocol/leases/lease_pace.h"
#include "protocol/leases/lease_settings.h"
#include "protocol/leases/stream_range.h"
#include "protocol/members/member_settings.h"
#include "protocol/messages_control.h"
#include "protocol/outbox/outbox.h"
#include "protocol/placement.h"
#include "protocol/predictions/predictions.h"
#include "protocol/records/journal.h"
#include "protocol/scaling/scale.h"
#include "protocol/slices/slice_placement.h"
#include "protocol/strategy.h"
#include "protocol/succession/succession.h"
#include "protocol/topology/near_partitions.h"
#include "protocol/topology/topology_settings.h"

namespace leat::protocol {

struct CoordinatorConfig : MemberSettings,
                           SliceSettings,
                           LeaseSettings,
                           CheckpointSettings,
                           PredictionSettings,
                           ScaleSettings,
                           SuccessionSettings {
  // Takes over all that the job's file says.
  void SetRules(const JobRules& rules) {
    static_cast<MemberRules&>(*this) = rules;
    static_cast<SliceRules&>(*this) = rules;
    static_cast<LeaseRules&>(*this) = rules;
    static_cast<CheckpointRules&>(*this) = rules;
  }

  uint32_t max_consecutive_rejected = 5;  // consecutive non-finite gradients that end the job
};

struct CoordinatorStatus : MemberRows, SliceRows, LeaseRows, CheckpointRows, ScaleRows {
  enum class Phase : uint8_t {
    kWaitingForServers,
    kWaitingForWorkers,  // all-reduce: workers hold the slices
    kRunning,
    kPaused,  // by AdminRequest::kPause, or LeaseSettings::pause_at is reached
    kStopping,
    kEnded
  } phase = Phase::kWaitingForServers;
  uint64_t term = 0;
  View view;
  uint64_t events = 0;  // applied by every slice, since the job was created
  std::vector<Position> watermark;
  uint64_t step = 0;        // stepped strategies: reached by every slice
  bool finished = false;    // every slice has every event of every epoch
  std::string waiting_for;  // reason why the job does not end, or does not train; empty: none
  std::optional<PublishedPredictions> predictions;  // none: the job publishes none
};

LEAT_ENUM(CoordinatorStatus::Phase, (kWaitingForServers, "waiting for servers"),
          (kWaitingForWorkers, "waiting for workers"), (kRunning, "running"), (kPaused, "paused"),
          (kStopping, "stopping"), (kEnded, "ended"));

class Coordinator {
 public:
  // Throws std::invalid_argument if the restored state contradicts itself or the job.
  Coordinator(CoordinatorConfig config, RecoveredState restored);
  ~Coordinator();

  // Handles all requests except StatusRequest, which the shell answers from status(). Each call gets one
  // Reply, possibly later. An invalid request gets a Refusal.
  CoordinatorActions OnRequest(Time now, uint64_t call, const ControlRequest& request);
  CoordinatorActions OnStream(Time now, const std::vector<StreamRange>& ranges);
  // Reports that the process has ended, so its heartbeats need not be waited for.
  CoordinatorActions OnNodeLost(Time now, NodeId node);
  CoordinatorActions OnCheckpointPrepared(Time now, uint64_t id, Result<CheckpointOrder> order);
  CoordinatorActions OnManifestCommitted(Time now, uint64_t id, const Status& status);
  CoordinatorActions OnCheckpointVerified(Time now, uint64_t id, const Status& status);
  // Predictions that the coordinator's process publishes, with its own feed (MemberSettings::feeds).
  CoordinatorActions OnPublishers(Time now, const std::vector<PublisherReport>& reports);
  std::vector<PublisherOrder> publisher_orders() const;
  // By partition; empty without late labels. The shell asks the stream for these marks and no others.
  std::vector<LabelMarksWanted> label_marks() const;
  // An alarm: raises the learning rate for a while, as configured.
  CoordinatorActions OnDrift(Time now);
  // Another coordinator has taken over: this one ends, and nothing that it has not done yet may be done.
  CoordinatorActions OnReplaced(const Status& why);
  // The member is to leave: the answer to its next heartbeat says so, and it gets no more leases. Returns why
  // that is impossible. A server hands its slices over to the others first.
  Status Drain(Time now, NodeId node);
  // Returns in one line why the server cannot leave: nobody else can take its slices.
  Status DrainServer(Time now, NodeId server);
  // Says in one line why the job cannot have this number of servers; ok if it can.
  Status CanScaleServers(uint32_t servers) const;
  // Sets the number that the autoscaler has chosen from a range of workers; 0: not known yet.
  void SetChosen(uint32_t workers);
  CoordinatorActions OnTimer(Time now);
  Time next_timer() const;

  CoordinatorStatus status() const;
  // The members of the former coordinator that this one has taken over.
  const std::vector<MemberJoined>& taken_over() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::protocol

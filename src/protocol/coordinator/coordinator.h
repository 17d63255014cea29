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
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/coordinator/coordinator_settings.h"
#include "protocol/heartbeats/heartbeats.h"
#include "protocol/members/admission.h"
#include "protocol/messages_control.h"
#include "protocol/outbox/outbox.h"
#include "protocol/records/journal.h"

namespace leat::protocol {

class Coordinator {
 public:
  // Throws std::invalid_argument if the restored state contradicts itself or the job.
  Coordinator(CoordinatorConfig config, RecoveredState restored) : config_(std::move(config)) {
    succession_.Restore(std::move(restored));
  }
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

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
  std::vector<PublisherOrder> publisher_orders() const { return predictions_.OrdersFor(NodeId()); }
  // By partition; empty without late labels. The shell asks the stream for these marks and no others.
  std::vector<LabelMarksWanted> label_marks() const { return leases_.cursors().MarksWanted(); }
  // An alarm: raises the learning rate for a while, as configured.
  CoordinatorActions OnDrift(Time now);
  // Another coordinator has taken over: this one ends, and nothing that it has not done yet may be done.
  CoordinatorActions OnReplaced(const Status& why);
  // The member is to leave: the answer to its next heartbeat says so, and it gets no more leases. Returns why
  // that is impossible. A server hands its slices over to the others first.
  Status Drain(Time now, NodeId node) { return scale_.Drain(now, node); }
  // Returns in one line why the server cannot leave: nobody else can take its slices.
  Status DrainServer(Time now, NodeId server) { return transfers_.DrainServer(now, server); }
  // Says in one line why the job cannot have this number of servers; ok if it can.
  Status CanScaleServers(uint32_t servers) const { return placement_.CanHave(servers); }
  // Sets the number that the autoscaler has chosen from a range of workers; 0: not known yet.
  void SetChosen(uint32_t workers) { scale_.SetChosen(workers); }
  CoordinatorActions OnTimer(Time now);
  Time next_timer() const { return end_.ended() ? Time::max() : heartbeats_.next_sweep(); }

  CoordinatorStatus status() const;
  // The members of the former coordinator that this one has taken over.
  const std::vector<MemberJoined>& taken_over() const { return returning_.taken_over(); }

 private:
  void FillIn(View* view);
  // Does what follows from the input, and returns what is to be done.
  CoordinatorActions Finish(Time now);
  void Advance(Time now);
  void StartStream();
  // Calls the request's `On`, and refuses a request that has none.
  void Dispatch(Time now, uint64_t call, const ControlRequest& request);
  void On(Time now, uint64_t call, const JoinRequest& request);
  void On(Time, uint64_t call, const JobRequest& request) {
    outbox_.Answer(call, DescribeJob(roster_, request));
  }
  void On(Time now, uint64_t call, const KeepAlive& keep_alive) {
    outbox_.Answer(call, roster_.OnKeepAlive(now, keep_alive, end_.stopping()));
  }
  void On(Time now, uint64_t call, const AdminRequest& request);
  CoordinatorStatus::Phase phase() const;
  // The first reason, from the end of the job to its beginning.
  std::string WaitingFor() const;

  // The concerns, from the bottom to the top.
  CoordinatorConfig config_;
  Outbox outbox_{[this](View* view) { FillIn(view); }};
  Roster roster_{config_, &outbox_};
  ReturningMembers returning_{&roster_};
  WorkerSlots slots_{&roster_};
  SlicePlacement placement_{config_, config_.partitions.size(), &roster_, &outbox_};
  SliceMap& slices_{placement_.map()};
  SliceTransfers transfers_{&placement_, &roster_, &outbox_};
  Leases leases_{config_, &roster_, &slices_, &outbox_};
  MemberGroups groups_{&roster_, &slices_, &leases_, &outbox_};
  Checkpoints checkpoints_{config_, &transfers_, &placement_, &leases_, &groups_, &roster_, &outbox_};
  Predictions predictions_{config_, &leases_.cursors(), &roster_, &outbox_};
  Scale scale_{config_, &placement_, &transfers_, &leases_, &groups_, &roster_, &outbox_};
  Concerns concerns_{outbox_, roster_, returning_,   slots_,       placement_, transfers_,
                     leases_, groups_, checkpoints_, predictions_, scale_};
  Succession succession_{config_, concerns_};
  JobEnd end_{concerns_};
  Heartbeats heartbeats_{concerns_, config_.max_consecutive_rejected, &succession_, &end_};
};

}  // namespace leat::protocol

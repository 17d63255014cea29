// Recordings of spans (show/timeline/collector.h): a role's half, which records while the coordinator asks
// for it and sends the spans there, and the coordinator's half: members that record, their heartbeats whose
// answers say so, and spans of the coordinator itself. Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/recorder/recorder.h"
#include "base/threads/thread.h"
#include "net/rpc/client.h"
#include "protocol/messages_control.h"
#include "run/roles/coordinator_client.h"
#include "show/report/progress.h"
#include "show/timeline/collector.h"

namespace leat::roles {

// Everything but the spans themselves is the work of a thread that exists while something is recorded.
class RoleRecording {
 public:
  explicit RoleRecording(CoordinatorClientOptions options) : options_(std::move(options)) {}
  // Gives up unsent spans.
  ~RoleRecording() { Stop(); }

  // Where the role's threads add spans.
  timeline::Recorder& recorder() { return recorder_; }
  // An order is obeyed once, and replaces an earlier one. `coordinator`: the address of the one that has sent
  // it.
  void OnReply(NodeId node, const protocol::ControlReply& reply, const std::string& coordinator);

 private:
  void Stop();
  // ---- the thread
  void Run(const protocol::RecordOrder& order, NodeId node);
  // Asks for the coordinator's time, or hands a chunk over. False if nobody wants any more.
  bool Send(const protocol::SpansRequest& request, bool* taken);
  void AskForTime(protocol::SpansRequest request, size_t times);

  const CoordinatorClientOptions options_;
  timeline::Recorder recorder_;
  uint64_t recording_ = 0;  // the last one that was ordered
  std::thread thread_;
  std::shared_ptr<control::ControlClient> client_;  // used by the thread
  std::vector<protocol::ClockSample> clock_;        // used by the thread
  StopEvent stop_;
};

class JobRecording {
 public:
  // `term`: the number of the coordinator's. `progress` knows where processes run.
  JobRecording(uint64_t term, const report::Progress& progress) : collector_(term), progress_(progress) {}

  // The reply to a request about recordings; none: the request is another one. `view`: asked at the start of
  // a recording.
  std::optional<protocol::ControlReply> Answer(Time now, const protocol::ControlRequest& request,
                                               const std::function<protocol::View()>& view);
  void OnHeartbeat(uint64_t call, const protocol::ControlRequest& request);
  // Tells the member whose heartbeat is answered to record.
  void AddOrder(Time now, uint64_t call, protocol::ControlReply* reply);
  // To be called ten times a second.
  void OnStatus(Time now, const protocol::View& view);
  void OnCheckpoint(uint64_t id, Time begin, Time end) {
    if (!checkpoints_->on()) return;
    checkpoints_->Add({.kind = timeline::Kind::kCheckpoint, .begin = begin, .end = end, .number = id});
  }

 private:
  protocol::TimelineReply OnTimeline(Time now, const protocol::TimelineRequest& request,
                                     const std::function<protocol::View()>& view);
  void SetMembers(const protocol::View& view);

  timeline::Collector collector_;
  const report::Progress& progress_;
  timeline::Recorder recorder_;
  timeline::Track* const checkpoints_ = recorder_.MakeTrack("checkpoints");
  std::map<NodeId, timeline::Collector::Member> members_;  // as of the last status
  std::map<uint64_t, NodeId> calls_;                       // heartbeats whose answers say to record
};

}  // namespace leat::roles

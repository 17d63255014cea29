// The coordinator's half of a recording (show/timeline/collector.h): members that record, their heartbeats
// whose answers say so, and spans of the coordinator itself. Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/recorder/recorder.h"
#include "protocol/messages_control.h"
#include "show/report/progress.h"
#include "show/timeline/collector.h"

namespace leat::roles {

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
  void OnCheckpoint(uint64_t id, Time begin, Time end);

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

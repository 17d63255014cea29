// The coordinator's part of a recording: tells the roles to record, takes their spans, and hands everything
// to the client that has asked for it. A state machine: time and messages are arguments. Not thread-safe.
//
// A role is told in the answer to its next heartbeat, and records from then on until the end. It sends its
// spans in chunks while it records, and says with the last one how its clock differs. Roles that have not
// finished some seconds after the end are named in the result, which is then complete without them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/recorder/recorder.h"
#include "base/status.h"
#include "protocol/messages_control.h"

namespace leat::timeline {

class Collector {
 public:
  // `term`: the number of the coordinator's term. Members outlive a coordinator, and the recordings of the
  // next one are others.
  explicit Collector(uint64_t term) : last_id_(term << 32) {}

  static constexpr Duration kLongest = std::chrono::seconds(60);  // recording
  // For the heartbeats that carry the order: nothing before is part of the recording.
  static constexpr Duration kLead = std::chrono::seconds(1);
  static constexpr Duration kGrace = std::chrono::seconds(3);  // after the end, for the last chunks
  static constexpr Duration kKept = std::chrono::seconds(60);  // while nobody fetches it
  static constexpr uint64_t kMaxBytes = 64 << 20;              // limit of all spans

  struct Member {
    NodeId node;
    std::string name, host;
    int64_t pid = 0;
  };
  // `members`: those that are to record. kFailedPrecondition while another recording is not over,
  // kInvalidArgument for a length that is not possible.
  protocol::TimelineReply Start(Time now, Duration length, const std::vector<Member>& members);
  // Whether a recording is not complete. The coordinator records, too, and hands its spans over before it is.
  bool recording() const { return recording_ && !recording_->complete; }
  void AddOwn(const std::vector<TrackSpans>& spans, uint64_t dropped);
  // For the answer to a heartbeat. A member that has joined meanwhile records from then on.
  std::optional<protocol::RecordOrder> OrderFor(Time now, const Member& member);
  protocol::SpansReply OnSpans(Time now, const protocol::SpansRequest& request);
  // kNotFound if it is another recording than the last one.
  protocol::TimelineReply OnFetch(Time now, const protocol::TimelineRequest& request);
  // To be called ten times a second, with the nodes that are members now: nobody waits for others.
  void OnTimer(Time now, const std::set<NodeId>& members);

 private:
  struct Process {
    protocol::TimelineProcess told;
    uint64_t next_chunk = 0;
    std::optional<size_t> part;  // its last one, which has room for more
    bool done = false;           // its last chunk is here
  };
  struct Part {
    NodeId node;
    Bytes spans;  // chunks, as many as a chunk may be large: each part takes a call to fetch
  };
  struct Recording {
    uint64_t id = 0;
    Time begin{0}, end{0};
    bool complete = false;
    Time wanted{0};  // when it became complete, or somebody fetched a part of it
    std::map<NodeId, Process> processes;
    std::vector<Part> parts;
    uint64_t bytes = 0;  // size of all parts
  };
  void Keep(Process* process, NodeId node, Bytes spans);

  std::optional<Recording> recording_;
  uint64_t last_id_;
};

}  // namespace leat::timeline

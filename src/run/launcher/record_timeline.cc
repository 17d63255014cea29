#include "run/launcher/record_timeline.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>
#include <variant>

#include "base/recorder/recorder.h"

namespace leat::launcher {
namespace {

constexpr Duration kLongestPause = std::chrono::milliseconds(200);

Result<protocol::TimelineReply> Ask(control::ControlClient& client, const protocol::TimelineRequest& request,
                                    Duration patience) {
  LEAT_ASSIGN_OR_RETURN(auto reply, client.Call(request, patience));
  auto* timeline = std::get_if<protocol::TimelineReply>(&reply);
  if (timeline == nullptr) return Status(Code::kInternal, "the coordinator sent a reply of the wrong type");
  if (!timeline->status.ok()) return timeline->status;
  return std::move(*timeline);
}

}  // namespace

Result<timeline::Recorded> RecordTimeline(control::ControlClient& client, Duration length,
                                          Duration patience) {
  using Kind = protocol::TimelineRequest::Kind;
  const MonotonicClock clock;
  LEAT_ASSIGN_OR_RETURN(protocol::TimelineReply reply,
                        Ask(client, {.kind = Kind::kStart, .length = length}, patience));
  const Time until = clock.Now() + length + patience;
  protocol::TimelineRequest fetch{.kind = Kind::kFetch, .recording = reply.recording};
  while (true) {
    // At first for as long as it records, then more often.
    std::this_thread::sleep_for(
        std::clamp(reply.left / 2, Duration(std::chrono::milliseconds(20)), kLongestPause));
    LEAT_ASSIGN_OR_RETURN(reply, Ask(client, fetch, patience));
    if (reply.parts > 0) break;
    if (clock.Now() > until) return Status(Code::kDeadlineExceeded, "the recording does not become complete");
  }
  timeline::Recorded recorded{.begin = reply.begin, .end = reply.end};
  std::map<NodeId, std::map<std::string, std::vector<timeline::Span>>> tracks;
  const auto processes = std::move(reply.processes);
  const uint64_t parts = reply.parts;
  for (fetch.part = 1; fetch.part < parts; ++fetch.part) {
    LEAT_ASSIGN_OR_RETURN(reply, Ask(client, fetch, patience));
    LEAT_ASSIGN_OR_RETURN(const auto chunk, timeline::DecodeSpans(reply.spans));
    for (const auto& track : chunk) {
      auto& spans = tracks[reply.node][track.name];
      spans.insert(spans.end(), track.spans.begin(), track.spans.end());
    }
  }
  for (const auto& process : processes) {
    auto& added = recorded.processes.emplace_back();
    added.process = process;
    for (auto& [name, spans] : tracks[process.node]) added.tracks.push_back({name, std::move(spans)});
  }
  return recorded;
}

}  // namespace leat::launcher

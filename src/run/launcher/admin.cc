#include "run/launcher/admin.h"

#include <algorithm>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "base/recorder/recorder.h"
#include "base/text.h"

namespace leat::launcher {
namespace {

// The deadline of the request itself. The command gives up earlier, if nothing moves.
constexpr Duration kLongest = std::chrono::hours(24 * 7);
constexpr Duration kStatusTimeout = std::chrono::seconds(5);
constexpr Duration kLongestPause = std::chrono::milliseconds(200);  // between two looks at a recording

Result<protocol::TimelineReply> Ask(control::ControlClient& client, const protocol::TimelineRequest& request,
                                    Duration patience) {
  LEAT_ASSIGN_OR_RETURN(auto timeline, control::CallFor<protocol::TimelineReply>(client, request, patience));
  if (!timeline.status.ok()) return timeline.status;
  return timeline;
}

}  // namespace

Result<report::JobStatus> AskStatus(control::ControlClient& client, Duration deadline) {
  LEAT_ASSIGN_OR_RETURN(const auto status,
                        control::CallFor<protocol::StatusReply>(client, protocol::StatusRequest{}, deadline));
  return report::StatusFromJson(status.json);
}

Status RunAdmin(control::ControlClient& client, const protocol::AdminRequest& request, std::FILE* out,
                Duration interval, Duration silence) {
  auto answer = std::async(std::launch::async, [&client, request] {
    return control::CallFor<protocol::AdminReply>(client, request, kLongest);
  });
  const MonotonicClock clock;
  report::AdminWait wait(clock.Now(), silence);
  while (answer.wait_for(interval) != std::future_status::ready) {
    const auto status = AskStatus(client, kStatusTimeout);
    const Time now = clock.Now();
    if (status.ok()) {
      if (const auto line = wait.OnStatus(now, *status)) std::fprintf(out, "%s\n", line->c_str());
    } else {
      wait.OnSilence(status.status());
    }
    if (Status given_up = wait.Check(now); !given_up.ok()) {
      client.Abort();
      return given_up;
    }
  }
  const auto reply = answer.get();
  return reply.ok() ? reply->status : reply.status();
}

Result<protocol::AdminRequest> DrainRequest(std::string_view name) {
  protocol::AdminRequest request{.kind = protocol::AdminRequest::Kind::kDrain};
  const size_t space = name.find(' ');
  const std::string_view role = name.substr(0, space);
  const std::string_view index = space == std::string_view::npos ? "" : name.substr(space + 1);
  const auto number = ToNumber<decltype(request.index)>(index);
  request.index = number.value_or(0);
  bool known = false;
  using protocol::Role;
  for (const Role drained : {Role::kWorker, Role::kServer, Role::kFeed, Role::kServe}) {
    if (role != Name(drained)) continue;
    request.role = drained;
    known = number.has_value();
  }
  if (known) return request;
  return Status(Code::kInvalidArgument,
                "'" + std::string(name) + "' is no member that can be drained, such as 'worker 3' or 'ps 1'");
}

Result<timeline::Recorded> RecordTimeline(control::ControlClient& client, Duration length,
                                          Duration patience) {
  using Kind = protocol::TimelineRequest::Kind;
  const MonotonicClock clock;
  LEAT_ASSIGN_OR_RETURN(protocol::TimelineReply reply, Ask(client, {.kind = Kind::kStart, .length = length},
                                                           std::min(patience, kStatusTimeout)));
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

#include "show/timeline/collector.h"

#include <algorithm>
#include <utility>

#include "base/recorder/recorder.h"

namespace leat::timeline {
namespace {

// More would be a mistake: a member sends four a second.
constexpr uint64_t kMaxChunks = 4096;
constexpr size_t kMaxSamples = 16;

// Times of a trace are sums of these, and of spans' times, which are below 2^62 ns.
constexpr Duration kMaxOffset{int64_t{1} << 60};  // some 36 years
bool Possible(const protocol::ClockSample& sample) {
  return sample.at >= Time{0} && sample.at <= kMaxOffset && sample.offset >= -kMaxOffset &&
         sample.offset <= kMaxOffset && sample.error >= Duration{0} && sample.error <= kMaxOffset;
}

}  // namespace

protocol::TimelineReply Collector::Start(Time now, Duration length, const std::vector<Member>& members) {
  if (length <= Duration::zero() || length > kLongest) {
    return {.status = {Code::kInvalidArgument, "a recording takes up to " +
                                                   std::to_string(kLongest / std::chrono::seconds(1)) +
                                                   " s, not " + std::to_string(Seconds(length))}};
  }
  if (recording())
    return {
        .status = {Code::kFailedPrecondition, "another recording is not over; try again in some seconds"}};
  recording_ = Recording();
  Recording& made = *recording_;
  made.id = ++last_id_;
  made.begin = now + kLead;
  made.end = made.begin + length;
  made.processes[NodeId()].told.name = "coordinator";
  made.processes[NodeId()].done = true;
  for (const Member& member : members) (void)OrderFor(now, member);
  return {.recording = made.id, .left = made.end + kGrace - now, .begin = made.begin, .end = made.end};
}

void Collector::AddOwn(const std::vector<TrackSpans>& spans, uint64_t dropped) {
  if (!recording()) return;
  Process& own = recording_->processes[NodeId()];
  own.told.dropped = std::max(own.told.dropped, dropped);
  for (Bytes& chunk : EncodeSpans(spans)) Keep(&own, NodeId(), std::move(chunk));
}

std::optional<protocol::RecordOrder> Collector::OrderFor(Time now, const Member& member) {
  if (!recording() || now >= recording_->end) return std::nullopt;
  protocol::TimelineProcess& told = recording_->processes[member.node].told;
  told.node = member.node;
  told.name = member.name;
  told.host = member.host;
  told.pid = member.pid;
  return protocol::RecordOrder{recording_->id, recording_->end - now};
}

void Collector::Keep(Process* process, NodeId node, Bytes spans) {
  if (spans.empty()) return;
  if (recording_->bytes + spans.size() > kMaxBytes) {
    process->told.missing =
        "the recording has " + std::to_string(kMaxBytes >> 20) + " MiB without its last spans";
    return;
  }
  recording_->bytes += spans.size();
  auto& parts = recording_->parts;
  if (process->part && parts[*process->part].spans.size() + spans.size() <= kMaxChunkBytes) {
    Bytes& joined = parts[*process->part].spans;
    joined.insert(joined.end(), spans.begin(), spans.end());
    return;
  }
  process->part = parts.size();
  parts.push_back({node, std::move(spans)});
}

protocol::SpansReply Collector::OnSpans(Time now, const protocol::SpansRequest& request) {
  const auto refuse = [now](Code code, std::string why) {
    return protocol::SpansReply{.status = {code, std::move(why)}, .now = now};
  };
  if (!recording() || request.recording != recording_->id)
    return refuse(Code::kNotFound, "the recording is over");
  const auto found = recording_->processes.find(request.node);
  if (found == recording_->processes.end() || request.node == NodeId())
    return refuse(Code::kNotFound, "this node is not part of the recording");
  Process& process = found->second;
  if (request.spans.size() > kMaxChunkBytes || request.chunk >= kMaxChunks ||
      request.clock.size() > kMaxSamples)
    return refuse(Code::kInvalidArgument, "a chunk of spans is too large");
  if (!std::ranges::all_of(request.clock, Possible))
    return refuse(Code::kInvalidArgument, "a sample of the clock is not possible");
  // The answer to it was lost, or it only asks for the time.
  if (process.done || request.chunk != process.next_chunk || (request.spans.empty() && !request.last))
    return {.now = now};
  ++process.next_chunk;
  Keep(&process, request.node, request.spans);
  if (request.last) {
    process.done = true;
    process.told.clock = request.clock;
    process.told.dropped = request.dropped;
  }
  return {.now = now};
}

protocol::TimelineReply Collector::OnFetch(Time now, const protocol::TimelineRequest& request) {
  if (!recording_ || request.recording != recording_->id)
    return {.status = {Code::kNotFound, "the recording is gone; has the coordinator been restarted?"}};
  Recording& made = *recording_;
  protocol::TimelineReply reply{.recording = made.id, .begin = made.begin, .end = made.end};
  if (!made.complete) {
    reply.left = std::max(made.end + kGrace - now, Duration::zero());
    return reply;
  }
  made.wanted = now;
  reply.parts = 1 + made.parts.size();
  if (request.part >= reply.parts) {
    reply.status = {Code::kInvalidArgument, "part " + std::to_string(request.part) + " of a recording with " +
                                                std::to_string(reply.parts) + " parts"};
  } else if (request.part == 0) {
    for (const auto& [node, process] : made.processes) reply.processes.push_back(process.told);
  } else {
    const Part& part = made.parts[request.part - 1];
    reply.node = part.node;
    reply.spans = part.spans;
  }
  return reply;
}

void Collector::OnTimer(Time now, const std::set<NodeId>& members) {
  if (!recording_) return;
  Recording& made = *recording_;
  if (made.complete) {
    if (now - made.wanted > kKept) recording_.reset();
    return;
  }
  bool wait = false;
  for (auto& [node, process] : made.processes) {
    if (process.done) continue;
    if (!members.contains(node)) {
      process.done = true;
      process.told.missing = "it has left the job, or was lost";
    }
    wait = wait || !process.done;
  }
  if (now < made.end || (wait && now < made.end + kGrace)) return;
  made.complete = true;
  made.wanted = now;
  for (auto& [node, process] : made.processes) {
    if (process.done) continue;
    process.told.missing = process.next_chunk == 0 ? "it has sent nothing" : "it has not sent all in time";
  }
}

}  // namespace leat::timeline

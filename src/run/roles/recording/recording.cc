#include "run/roles/recording/recording.h"

#include <deque>
#include <set>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/recorder/recorder.h"
#include "show/timeline/trace.h"

namespace leat::roles {
namespace {

// A track has room for what happens in several of these.
constexpr Duration kChunkPause = std::chrono::milliseconds(250);
constexpr Duration kRecordingCall = std::chrono::seconds(1);
constexpr Duration kRecordingRetry = std::chrono::milliseconds(50);
constexpr size_t kMaxSamples = 4096;
// Chunks that are not sent yet.
constexpr size_t kMaxWaiting = 64;

std::optional<protocol::RecordOrder> OrderIn(const protocol::ControlReply& reply) {
  if (const auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(&reply)) return worker->record;
  if (const auto* server = std::get_if<protocol::ServerHeartbeatReply>(&reply)) return server->record;
  return std::nullopt;
}

}  // namespace

void RoleRecording::OnReply(NodeId node, const protocol::ControlReply& reply,
                            const std::string& coordinator) {
  const auto order = OrderIn(reply);
  if (!order || order->recording == recording_) return;
  Stop();
  recording_ = order->recording;
  stop_.Set(false);
  clock_.clear();
  client_ = control::ControlClient::Make(coordinator, options_.token, options_.tls);
  spdlog::info("recording for {:.1f} s", Seconds(order->length));
  thread_ = StartThread([this, order = *order, node] { Run(order, node); });
}

void RoleRecording::Stop() {
  if (!thread_.joinable()) return;
  stop_.Set();
  client_->Abort();
  thread_.join();
}

bool RoleRecording::Send(const protocol::SpansRequest& request, bool* taken) {
  const MonotonicClock clock;
  *taken = false;
  const Time sent = clock.Now();
  const auto reply = client_->Call(request, kRecordingCall);
  const Time received = clock.Now();
  if (!reply.ok()) return reply.status().code() != Code::kAborted;
  const auto* answer = std::get_if<protocol::SpansReply>(&*reply);
  if (answer == nullptr || !answer->status.ok()) return false;
  *taken = true;
  if (clock_.size() < kMaxSamples) clock_.push_back(timeline::Measure(sent, received, answer->now));
  return true;
}

void RoleRecording::AskForTime(protocol::SpansRequest request, size_t times) {
  request.spans.clear();
  request.last = false;
  bool taken = false;
  for (size_t i = 0; i < times; ++i) {
    if (!Send(request, &taken)) return;
  }
}

void RoleRecording::Run(const protocol::RecordOrder& order, NodeId node) {
  const MonotonicClock clock;
  const Time end = clock.Now() + order.length;
  recorder_.Begin();
  std::deque<Bytes> waiting;
  uint64_t lost = 0;  // chunks
  protocol::SpansRequest request{.node = node, .recording = order.recording};
  const auto take = [&] {
    for (Bytes& chunk : timeline::EncodeSpans(recorder_.Take())) {
      if (waiting.size() < kMaxWaiting) {
        waiting.push_back(std::move(chunk));
      } else {
        ++lost;
      }
    }
  };
  // False: nobody wants it any more. A call that has failed is repeated at the next attempt.
  const auto send = [&] {
    bool taken = true;
    while (!waiting.empty() && taken) {
      request.spans = waiting.front();
      if (!Send(request, &taken)) return false;
      if (!taken) break;
      waiting.pop_front();
      ++request.chunk;
    }
    return true;
  };
  AskForTime(request, timeline::kQuestions);
  bool wanted = true;
  while (wanted && clock.Now() < end && !stop_.Await(std::min(kChunkPause, end - clock.Now()))) {
    take();
    wanted = send();
    AskForTime(request, 1);
  }
  recorder_.End();
  take();
  if (!wanted || stop_.is_set()) return;
  AskForTime(request, timeline::kQuestions);
  // The coordinator waits no longer.
  while (clock.Now() < end + timeline::Collector::kGrace && send()) {
    if (waiting.empty()) {
      request.spans.clear();
      request.last = true;
      request.clock = timeline::Best(clock_);
      request.dropped = recorder_.dropped() + lost;
      bool taken = false;
      if (!Send(request, &taken) || taken) return;
    }
    if (stop_.Await(kRecordingRetry)) return;
  }
}

std::optional<protocol::ControlReply> JobRecording::Answer(Time now, const protocol::ControlRequest& request,
                                                           const std::function<protocol::View()>& view) {
  if (const auto* spans = std::get_if<protocol::SpansRequest>(&request))
    return collector_.OnSpans(now, *spans);
  if (const auto* timeline = std::get_if<protocol::TimelineRequest>(&request))
    return OnTimeline(now, *timeline, view);
  return std::nullopt;
}

protocol::TimelineReply JobRecording::OnTimeline(Time now, const protocol::TimelineRequest& request,
                                                 const std::function<protocol::View()>& view) {
  if (request.kind == protocol::TimelineRequest::Kind::kFetch) return collector_.OnFetch(now, request);
  SetMembers(view());
  std::vector<timeline::Collector::Member> members;
  for (const auto& [node, member] : members_) members.push_back(member);
  auto reply = collector_.Start(now, request.length, members);
  if (reply.status.ok()) recorder_.Begin();
  return reply;
}

void JobRecording::OnHeartbeat(uint64_t call, const protocol::ControlRequest& request) {
  const bool recorded = std::holds_alternative<protocol::WorkerHeartbeat>(request) ||
                        std::holds_alternative<protocol::ServerHeartbeat>(request);
  if (recorded && collector_.recording()) calls_[call] = protocol::NodeOf(request);
}

void JobRecording::AddOrder(Time now, uint64_t call, protocol::ControlReply* reply) {
  const auto recorded = calls_.extract(call);
  if (!recorded) return;
  const auto member = members_.find(recorded.mapped());
  if (member == members_.end()) return;
  auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(reply);
  auto* server = std::get_if<protocol::ServerHeartbeatReply>(reply);
  const auto order = collector_.OrderFor(now, member->second);
  if (worker != nullptr) worker->record = order;
  if (server != nullptr) server->record = order;
}

void JobRecording::SetMembers(const protocol::View& view) {
  members_.clear();
  for (const auto& member : view.members) {
    if (member.role != protocol::Role::kWorker && member.role != protocol::Role::kServer) continue;
    auto [host, pid] = progress_.ProcessOf(member.node);
    members_[member.node] = {member.node, protocol::Name(member), std::move(host), pid};
  }
}

void JobRecording::OnStatus(Time now, const protocol::View& view) {
  if (collector_.recording()) {
    SetMembers(view);
    collector_.AddOwn(recorder_.Take(), recorder_.dropped());
  }
  std::set<NodeId> nodes;
  for (const auto& [node, member] : members_) nodes.insert(node);
  collector_.OnTimer(now, nodes);
  if (collector_.recording()) return;
  recorder_.End();
  members_.clear();
  calls_.clear();
}

}  // namespace leat::roles

#include "run/roles/recording/job_recording.h"

#include <set>
#include <utility>
#include <variant>
#include <vector>

namespace leat::roles {

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

void JobRecording::OnCheckpoint(uint64_t id, Time begin, Time end) {
  if (!checkpoints_->on()) return;
  checkpoints_->Add({.kind = timeline::Kind::kCheckpoint, .begin = begin, .end = end, .number = id});
}

}  // namespace leat::roles

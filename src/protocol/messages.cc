#include <algorithm>
#include <functional>
#include <utility>
#include <variant>

#include "protocol/messages_control.h"
#include "protocol/messages_data.h"

namespace leat::protocol {

namespace {

Status Invalid(std::string why) {
  return {Code::kInvalidArgument, std::move(why)};
}

template <class T>
Status CheckOrder(const std::vector<T>& slices) {
  const auto at = std::ranges::adjacent_find(slices, std::ranges::greater_equal(), &T::slice);
  if (at == slices.end()) return {};
  return {Code::kDataLoss, "slices do not ascend after slice " + ToString(at->slice)};
}

}  // namespace

// ---- pushes

Status Check(const StepLane& step_lane) {
  if (step_lane.valid()) return {};
  return {Code::kDataLoss, "lane " + std::to_string(step_lane.lane) + " of " +
                               std::to_string(step_lane.width) + ", " + std::to_string(step_lane.needed) +
                               " needed"};
}

Status Check(const PushRequest& push) {
  if (push.disposition != Disposition::kPull && !ValidRate(push.rate))
    return {Code::kDataLoss, "rate is " + std::to_string(push.rate)};
  if (push.counted.size() > (push.step_lane ? (push.step_lane->width + 63) / 64 : 0))
    return {Code::kDataLoss, "counted has " + std::to_string(push.counted.size()) + " words"};
  return CheckOrder(push.slices);
}

Status Check(const PushReply& reply) {
  return CheckOrder(reply.slices);
}

// ---- control

std::string Name(const Member& member) {
  const bool standby = member.state == Member::State::kStandby;
  return (standby ? "standby" : std::string(Name(member.role))) + " " + std::to_string(member.index);
}

std::string ToString(const WorkerRange& workers) {
  const std::string least = std::to_string(workers.least);
  return workers.fixed() ? least : least + ":" + std::to_string(workers.most);
}

bool View::ready() const {
  return !slices.empty() &&
         std::all_of(slices.begin(), slices.end(), [](const SliceLocation& place) { return place.live; });
}

std::vector<std::string> View::standbys() const {
  std::vector<std::string> addresses;
  for (const Member& member : members) {
    if (member.role == Role::kCoordinator) addresses.push_back(member.address);
  }
  return addresses;
}

const Member* View::Find(NodeId node) const {
  // The coordinator sends members in order.
  const auto here =
      std::lower_bound(members.begin(), members.end(), node,
                       [](const Member& member, NodeId wanted) { return member.node < wanted; });
  if (here != members.end() && here->node == node) return &*here;
  const auto at = std::find_if(members.begin(), members.end(),
                               [node](const Member& member) { return member.node == node; });
  return at == members.end() ? nullptr : &*at;
}

// ---- rules over several fields

Status Check(const Lease& lease) {
  const StepLane step_lane{lease.first_step, lease.lane, lease.width, lease.needed};
  if (!step_lane.valid())
    return Invalid("lane is " + std::to_string(lease.lane) + " of " + std::to_string(lease.width) +
                   ", of which " + std::to_string(lease.needed) + " are needed");
  if (!ValidRate(lease.rate)) return Invalid("rate is " + std::to_string(lease.rate));
  if (lease.assigned.size() == 0) return {};
  RunSet both = lease.missing;
  both &= lease.assigned;
  if (both == lease.missing) return {};
  return Invalid("missing has runs that are not assigned: id is " + std::to_string(lease.id));
}

Status Check(const PublisherReport& report) {
  for (const OpenSplit& split : report.held) {
    if (split.cut.partition != report.partition)
      return Invalid("partition of scores is " + std::to_string(split.cut.partition));
  }
  return {};
}

Status Check(const RejectedRun& rejected) {
  if (rejected.run < rejected.cut.runs()) return {};
  return Invalid("run is " + std::to_string(rejected.run) + " of " + std::to_string(rejected.cut.runs()));
}

Status Check(const Round& round) {
  if (!ValidRate(round.rate)) return Invalid("rate is " + std::to_string(round.rate));
  if (round.lanes.empty()) return Invalid("number of lanes is 0");
  const Round::Lane& first = round.lanes.front();
  for (const Round::Lane& lane : round.lanes) {
    const uint32_t count = lane.assigned.count();
    if (count == 0 || count != first.assigned.count())
      return Invalid("number of runs of a lane is " + std::to_string(count));
    if (lane.labels.has_value() != first.labels.has_value()) return Invalid("some lanes have no labels");
  }
  return {};
}

Status Check(const MemberReport& report) {
  return CheckPartitions(report.partitions);
}

Status Check(const LedgerReport& report) {
  return CheckPartitions(report.partitions, report.first_partition);
}

Status Check(const Refusal& refusal) {
  return refusal.status.ok() ? Invalid("a refusal without an error") : Status();
}

// ---- accessors

bool CoordinatorSet::Contains(uint64_t coordinator) const {
  return std::ranges::binary_search(coordinators, coordinator);
}

bool CoordinatorSet::NewerThan(const CoordinatorSet& other) const {
  return std::pair(term, epoch) > std::pair(other.term, other.epoch);
}

uint64_t TermOf(const ControlRequest& request) {
  if (std::holds_alternative<Promise>(request) || std::holds_alternative<FollowRequest>(request)) return 0;
  return std::visit(
      [](const auto& one) -> uint64_t {
        if constexpr (requires { one.term; }) return one.term;
        return 0;
      },
      request);
}

ControlRequest OfThisRun(ControlRequest request, uint64_t term) {
  const auto rename = [term](auto& one) {
    if constexpr (requires { one.term; }) one.term = term;
    if constexpr (requires {
                    one.term;
                    one.node;
                  })
      one.node = NodeId();
  };
  std::visit(rename, request);
  return request;
}

const ElectorState* ElectorOf(const ControlRequest& request) {
  if (const auto* worker = std::get_if<WorkerHeartbeat>(&request)) return &worker->elector;
  if (const auto* server = std::get_if<ServerHeartbeat>(&request)) return &server->elector;
  return nullptr;
}

NodeId NodeOf(const ControlRequest& request) {
  if (const auto* admin = std::get_if<AdminRequest>(&request); admin != nullptr) return NodeId();
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.node; }) return one.node;
        return NodeId();
      },
      request);
}

std::string MetricsIn(const ControlRequest& request) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.metrics; }) return one.metrics;
        return std::string();
      },
      request);
}

void SetMetrics(const std::string& address, ControlRequest* request) {
  std::visit(
      [&address](auto& one) {
        if constexpr (requires { one.metrics; }) one.metrics = address;
      },
      *request);
}

std::vector<std::string> StandbysIn(const ControlReply& reply) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.standbys; }) return one.standbys;
        if constexpr (requires { one.view; }) {
          if (one.view) return one.view->standbys();
        }
        return std::vector<std::string>();
      },
      reply);
}

}  // namespace leat::protocol

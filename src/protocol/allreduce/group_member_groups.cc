// Groups of a member: joining, leaving, and the state that a group starts from.
#include <algorithm>
#include <string>
#include <utility>

#include "protocol/allreduce/group_member_state.h"
#include "protocol/placement.h"

namespace leat::protocol {

void GroupMember::State::Quit() {
  if (!group) return;
  actions.emplace_back(LeaveGroup{group->id});
  work.reset();
  for (Known& known : rounds) Forget(known);
  rounds.clear();
  loading.reset();
  connected = sharing = filled = false;
}

void GroupMember::State::Fail(std::string why) {
  if (!failure.empty()) return;
  failure = why.empty() ? "unknown" : std::move(why);
  Quit();
  heartbeat_urgent = true;
}

void GroupMember::State::TakeGroup(const Group& newer) {
  if (group && newer.id < group->id) return;
  if (!group || newer.id > group->id) {
    const auto me =
        std::ranges::find_if(newer.members, [this](const Member& member) { return member.node == node; });
    if (me == newer.members.end()) return;
    Quit();
    group = newer;
    group->decided = false;
    failure.clear();
    unreachable.reset();
    heartbeat_urgent = true;
    rank = static_cast<uint32_t>(me - newer.members.begin());
    // Shards of an earlier group's checkpoint are void.
    checkpoint.reset();
    shard.reset();
    actions.emplace_back(JoinGroup{newer.id, rank, newer.members});
  }
  if (!newer.decided || group->decided) return;
  group = newer;
  Fill();
}

void GroupMember::State::Fill() {
  if (!group || !group->decided || filled || !failure.empty()) return;
  if (group->holder != NodeId()) {
    if (!connected || sharing) return;
    const auto at = std::ranges::find_if(
        group->members, [this](const Member& member) { return member.node == group->holder; });
    if (at == group->members.end()) return Fail("the one who holds the state is no member");
    sharing = true;
    actions.emplace_back(BroadcastState{group->id, static_cast<uint32_t>(at - group->members.begin())});
    return;
  }
  if (group->orders.empty()) {
    // All members have it.
    if (!holds || held.header().step != group->step)
      return Fail("not at the step that the group starts from");
    return OnStateReady();
  }
  if (loading) return;
  if (group->orders.size() != config.table.slices.size()) return Fail("orders that do not cover all slices");
  for (uint32_t i = 0; i < group->orders.size(); ++i) {
    if (group->orders[i].slice != SliceId(i)) return Fail("orders out of order");
  }
  if (std::ranges::all_of(group->orders, [](const SliceOrder& order) { return order.directory.empty(); })) {
    held.Make(start);
    return OnStateReady();
  }
  loading = Loading{group->orders, {}};
  loading->slices.resize(group->orders.size());
  actions.emplace_back(LoadSlices{group->orders});
}

void GroupMember::State::OnStateReady() {
  if (held.header().step != group->step) {
    holds = false;
    return Fail("the state is of step " + std::to_string(held.header().step) + ", the group starts from " +
                std::to_string(group->step));
  }
  holds = filled = heartbeat_urgent = true;
  // After a restart from a checkpoint, earlier rejections do not count.
  consecutive_rejected = 0;
}

std::vector<SliceId> GroupMember::State::OwnSlices() const {
  const auto places =
      Place(config.table, Placement::kPartitioned, static_cast<uint32_t>(group->members.size()));
  std::vector<SliceId> own;
  for (uint32_t i = 0; i < places.size(); ++i) {
    if (places[i] == rank) own.emplace_back(i);
  }
  return own;
}

// Starts to save this member's shard once it is at the checkpoint's step.
void GroupMember::State::Save() {
  if (!checkpoint || saving || checkpoint->version > held.header().step) return;
  const CheckpointOrder order = *std::exchange(checkpoint, std::nullopt);
  last_checkpoint = order.id;
  shard.reset();
  saved.clear();
  if (order.version < held.header().step) {
    ShardReport report;
    report.checkpoint = order.id;
    report.status =
        Status(Code::kFailedPrecondition, "a checkpoint of step " + std::to_string(order.version) +
                                              " was ordered at step " + std::to_string(held.header().step));
    shard = std::move(report);
    heartbeat_urgent = true;
    return;
  }
  SaveShard save{order, {}};
  const Incarnation incarnation(group->id);
  for (const SliceId slice : OwnSlices()) {
    save.slices.push_back(held.Copy(slice, incarnation, config.allocate));
    saved.push_back({slice, incarnation});
  }
  saving = order.id;
  if (!save.slices.empty()) {
    actions.emplace_back(std::move(save));
    return;
  }
  // More members than slices: nothing to save.
  saving.reset();
  ShardReport report;
  report.checkpoint = order.id;
  shard = std::move(report);
  heartbeat_urgent = true;
}

}  // namespace leat::protocol

#include "protocol/allreduce/member/member_shard.h"

#include <string>
#include <utility>

#include "protocol/placement.h"

namespace leat::protocol {

std::vector<SliceId> MemberShard::SlicesOf(const Group& group, uint32_t rank) const {
  const auto ranks = Place(table_, Placement::kPartitioned, static_cast<uint32_t>(group.members.size()));
  std::vector<SliceId> slices;
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == rank) slices.emplace_back(i);
  }
  return slices;
}

bool MemberShard::Save(const TrainingState& held, const Group& group, uint32_t rank) {
  const uint64_t step = held.header().step;
  if (!order_ || saving_ || order_->version > step) return false;
  const CheckpointOrder order = *std::exchange(order_, std::nullopt);
  last_ = order.id;
  report_.reset();
  saved_.clear();
  SaveShard save{order, {}};
  if (order.version == step) {
    const Incarnation incarnation(group.id);
    for (const SliceId slice : SlicesOf(group, rank)) {
      save.slices.push_back(held.Copy(slice, incarnation, allocate_));
      saved_.push_back({slice, incarnation});
    }
  }
  if (!save.slices.empty()) {
    saving_ = order.id;
    actions_.emplace_back(std::move(save));
    return false;
  }
  // A shard without slices is complete: there are more members than slices.
  report_.emplace().checkpoint = order.id;
  if (order.version < step) {
    report_->status =
        Status(Code::kFailedPrecondition, "a checkpoint of step " + std::to_string(order.version) +
                                              " was ordered at step " + std::to_string(step));
  }
  return true;
}

bool MemberShard::OnSaved(ShardReport report) {
  if (!saving_ || *saving_ != report.checkpoint) return false;
  saving_.reset();
  report.slices = saved_;
  report_ = std::move(report);
  return true;
}

}  // namespace leat::protocol

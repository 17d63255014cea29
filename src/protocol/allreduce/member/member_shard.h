// A group member's part of a checkpoint: the slices that it saves, and its report until the coordinator has
// it.
//
// Invariants: one shard is saved at a time; an order is obeyed once, at its own step; a new group voids the
// orders and reports of earlier ones. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/allreduce/group_member.h"

namespace leat::protocol {

class MemberShard {
 public:
  // The arguments outlive it. `actions`: where it adds its own. `allocate`: as in GroupMemberConfig.
  MemberShard(const SliceTable& table, const Allocate& allocate, GroupMemberActions& actions)
      : table_(table), allocate_(allocate), actions_(actions) {}

  void TakeOrder(const CheckpointOrder& order) {
    if (order.id > last_) order_ = order;
  }
  void Void() {
    order_.reset();
    report_.reset();
  }
  // Starts to save this member's shard once it is at the order's step. True if there is something to report.
  bool Save(const TrainingState& held, const Group& group, uint32_t rank);
  // False: it is the report of another order.
  bool OnSaved(ShardReport report);
  const std::optional<ShardReport>& report() const { return report_; }
  // The slices of the shard of a rank.
  std::vector<SliceId> SlicesOf(const Group& group, uint32_t rank) const;

 private:
  const SliceTable& table_;
  const Allocate& allocate_;
  GroupMemberActions& actions_;
  std::optional<CheckpointOrder> order_;  // not begun yet
  uint64_t last_ = 0;                     // id of the last order that was begun
  std::optional<uint64_t> saving_;        // its id, until it is saved
  std::vector<SliceIncarnation> saved_;
  std::optional<ShardReport> report_;
};

}  // namespace leat::protocol

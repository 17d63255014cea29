// Broadcasts the training state of one member to all members of its group, so that new members start from it.
//
// The broadcast is an all-reduce by maximum: the holder contributes its state and every other member zeros.
// Tensors thus travel the same way as in training steps, and the loss of a member fails the broadcast for
// all.
//
// Loop's thread only.
#pragma once

#include <functional>

#include "protocol/allreduce/group_member.h"
#include "train/collective/all_reduce.h"

namespace leat::step {

// All members call this with the same `holder`, a rank. `state` is the caller's own and is read before this
// returns. `done` is called once, from the loop, with the holder's state, or with kDataLoss if that state is
// malformed; never after the group is destroyed.
void BroadcastState(collective::AllReduce& group, uint32_t holder, const protocol::TrainingState& state,
                    std::function<void(Result<protocol::GroupMember::Snapshot>)> done);

}  // namespace leat::step

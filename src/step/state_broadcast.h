// The state of one member of a group, for all of them: what a new one starts from.
//
// All members do this at once, over the group's all-reduce: the holder has the state, everybody else zeros,
// and the largest of a word is the holder's. So there is no other way for tensors to travel than the one that
// steps take, and whoever is lost on the way ends it for all.
//
// Loop's thread only.
#pragma once

#include <functional>

#include "collective/all_reduce.h"
#include "protocol/member/group_member.h"

namespace leat::parallel {

// `state`: of the member itself, read before this returns; `holder`: a rank. `done` is called once, from the
// loop, unless the group is destroyed before: with the holder's state. kDataLoss when that is none.
void BroadcastState(collective::AllReduce& group, uint32_t holder, const protocol::TrainingState& state,
                    std::function<void(Result<protocol::GroupMember::Snapshot>)> done);

}  // namespace leat::parallel

// Answers of an all-reduce group's members to those that follow the parameters (subscribers/subscriber.h).
// Pure functions.
#pragma once

#include <cstddef>
#include <optional>

#include "base/status.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"

namespace leat::protocol {

// The values that a member has between two steps.
struct MemberValues {
  Incarnation incarnation;  // the id of the group that has made them
  uint64_t step = 0;
  friend bool operator==(const MemberValues&, const MemberValues&) = default;
};

// kInvalidArgument for a request that is no pull of slices of the job; close the connection then.
Status CheckPull(const PushRequest& request, size_t slices);
// Says which slices the requester does not have; their values are to follow. `values`: none if the member has
// none now. `view`: the member's; a requester that is not in it as one that follows gets nothing.
PushReply AnswerPull(const PushRequest& request, const View& view, const std::optional<MemberValues>& values);

}  // namespace leat::protocol

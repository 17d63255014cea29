// Settings of a job that its coordinator and its members follow as they are: read once, from the job's file
// (job::Job), and never copied field by field. Each is declared by its concern. Numbers of members are not
// among them: commands change those. Plain data.
#pragma once

#include "protocol/checkpoints/checkpoint_settings.h"
#include "protocol/leases/lease_settings.h"
#include "protocol/members/member_settings.h"
#include "protocol/slices/slice_settings.h"

namespace leat::protocol {

struct JobRules : MemberRules, SliceRules, LeaseRules, CheckpointRules {};

}  // namespace leat::protocol

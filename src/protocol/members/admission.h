// Whether a process may join the job, and as what. Pure functions.
//
// A process joins if its program and job are the coordinator's, the job needs its role, its MPI rank is free,
// all members can reach each other with it, it is near enough, and no other member has its address.
#pragma once

#include <vector>

#include "protocol/members/roster.h"

namespace leat::protocol {

struct Admission {
  // Without a node. A worker stands by if it wants to, or if its host is of another class than the one that
  // the job wants for workers.
  MemberState member;
  std::vector<NodeId> former;     // members that are this same process, which are lost
  std::optional<uint32_t> index;  // the rank that MPI has given it
};

// An error says in one line why the process may not join: kUnavailable if it may try again.
Result<Admission> Admit(const Roster& roster, const JoinRequest& request);

// The reply to a process that joins as this member.
JoinReply Welcome(const MemberSettings& job, const Member& member);
// The job and its feeds, for a process that does not join, if its program is the coordinator's.
JobReply DescribeJob(const Roster& roster, const JobRequest& request);

}  // namespace leat::protocol

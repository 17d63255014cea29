// A process that follows the parameters of a job: values that are trained come into its memory, again and
// again, and nothing goes back.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "job/job.h"
#include "protocol/parameters.h"
#include "run/roles/role.h"

namespace leat::roles {

// Where a follower puts values. All calls come from the follower's thread.
class ValueSink {
 public:
  virtual ~ValueSink() = default;
  // After each join. The first call gives the job; later ones too: the job was restarted, or its coordinator
  // was. An error (another model) is logged, and the follower joins again later.
  virtual Status OnJob(const job::Job& job) = 0;
  // The memory that the next round of values is received into, for the job's slices (Job::Slices). The
  // follower knows by Parameters::held which values it has, and changes both until Complete, or until the
  // next OnJob or Begin: then the round was given up, and `held` says what is there. Null: no memory is free
  // now; it is asked for again after some milliseconds.
  virtual protocol::Parameters* Begin() = 0;
  // All slices of the parameters from Begin are as they were on the servers at `asked`, or later. `asked`: as
  // of MonotonicClock. `changed`: at least one slice has other values than in the round before.
  virtual void Complete(protocol::Parameters* parameters, Time asked, bool changed) = 0;
  // The job is away (no coordinator, stopped, a server is lost), or there again; for logs and metrics.
  virtual void OnConnected(bool connected, const std::string& why) = 0;
};

struct FollowOptions {
  RoleOptions role;  // coordinator_client, transport
  Duration refresh = std::chrono::milliseconds(100);
};

// Follows in the calling thread until `stop` is requested, or the job tells this member to leave (`leat
// drain`): both return ok. Survives evictions, restarts of the coordinator, and a job that ends and starts
// again: it joins again, after 50 ms to 5 s, for ever. Returns an error if no join has succeeded yet and the
// coordinator refuses this one for good: another version, a wrong token or certificate.
Status Follow(const FollowOptions& options, ValueSink& sink, std::stop_token stop);

// ---- the values that a running job has now
struct FetchedValues {
  job::Job job;
  std::vector<std::vector<float>> variables;  // row-major, in the order of Job::Slices
};

// Joins the job as a member that follows its parameters, pulls all of them once, and leaves. Blocks, at most
// until the deadline: kDeadlineExceeded, with what it waited for.
Result<FetchedValues> FetchValues(const RoleOptions& options, Duration deadline);

}  // namespace leat::roles

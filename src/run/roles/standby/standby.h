// `leat coordinator --standby`: a process that waits to become the coordinator of a job, whose coordinator is
// another one. There are two kinds, by whether they share the job's directory:
//
//   MakeSharedStandby   needs no majority of the members, but the disk that the coordinator writes to
//   MakeNetworkStandby  shares nothing but the network, and takes over once a majority has elected it
//
// Both are members of the job until their turn. One that is replaced by another coordinator is a standby
// again.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "job/job.h"
#include "run/roles/start/coordinator_options.h"

namespace leat::roles {

struct StandbyOptions {
  std::string leader;     // the coordinator: host:port, or several with commas between
  std::string directory;  // the job's, or this standby's own
  // The standby copies the journal and the checkpoints into a directory of its own.
  bool own_directory = false;
  std::function<job::Job()> load;  // the job from the directory, when it is taken over
  CoordinatorOptions coordinator;  // options of the coordinator that it becomes
};

class Standby {
 public:
  virtual ~Standby() = default;
  // Blocks until this process is to be the coordinator, which is logged, and sets what follows from that in
  // StandbyOptions::coordinator. kAborted: the job is over, or a signal came. Other errors: it cannot stand
  // by.
  virtual Status AwaitTurn() = 0;
};

// `options` outlives it. Both set the coordinator's address when it is known.
Result<std::unique_ptr<Standby>> MakeSharedStandby(StandbyOptions* options);
Result<std::unique_ptr<Standby>> MakeNetworkStandby(StandbyOptions* options);

// Runs in the calling thread until the job is over, until a signal, or until it cannot go on. Errors are
// those of RunCoordinator, or of the first join. An own directory is created if it is missing;
// kFailedPrecondition if it belongs to another job or run.
Status RunStandby(StandbyOptions options);

}  // namespace leat::roles

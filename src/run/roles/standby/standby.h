// `leat coordinator --standby`: a process that waits to become the coordinator of a job, whose coordinator is
// another one. There are two kinds, by whether they share the job's directory
// (StandbyOptions::own_directory): one that shares it needs no majority of the members, but the disk that the
// coordinator writes to; the other one shares nothing but the network, and takes over once a majority has
// elected it.
//
// Both are members of the job until their turn. One that is replaced by another coordinator is a standby
// again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "job/job.h"
#include "net/rpc/server.h"
#include "protocol/succession/election.h"
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

// The turn of a standby with a directory of its own, to which it copies the coordinator's journal and
// checkpoints: blocks until a majority of the members has elected this process, which is logged, and sets
// what follows from that in StandbyOptions::coordinator. kAborted: the job is over, or a signal came. Other
// errors: it cannot stand by.
Status AwaitElection(StandbyOptions* options);

// Runs in the calling thread until the job is over, until a signal, or until it cannot go on. Errors are
// those of RunCoordinator, or of the first join. An own directory is created if it is missing;
// kFailedPrecondition if it belongs to another job or run.
Status RunStandby(StandbyOptions options);

// ---- elections

// A coordinator that is not one yet: it answers members that look for theirs at its address, and stands for
// election once nobody else answers them (protocol/succession/election.h). Thread-safe.
class Election {
 public:
  // Listens on the address of the coordinator that it may become.
  static Result<std::unique_ptr<Election>> Start(const CoordinatorOptions& options);

  const std::string& address() const { return server_->address(); }
  // From now on members are asked for promises.
  void Stand(protocol::CandidateConfig config, protocol::Electorate electorate);
  void Withdraw() {
    std::lock_guard lock(mutex_);
    candidate_.reset();
  }

  struct Outcome {
    std::optional<uint64_t> elected;  // the term
    bool excluded = false;            // Candidate::excluded
  };
  Outcome Look();

 private:
  Election() = default;
  protocol::ControlReply Answer(const protocol::ControlRequest& request);

  const MonotonicClock clock_;
  std::mutex mutex_;
  std::optional<protocol::Candidate> candidate_;
  std::unique_ptr<control::ControlServer> server_;  // ends first: it uses the members above
};

// Asks other coordinators, at these addresses, whether one of them has taken the job over from the
// coordinator of `term`, whose directory has this number. Returns the term of one that has. Blocks for at
// most half a second.
std::optional<uint64_t> AskForLaterTerm(const std::vector<std::string>& addresses, uint64_t coordinator,
                                        uint64_t term, const CoordinatorOptions& options);

// A coordinator that was restarted with the directory of a job that has, or had, standbys with directories of
// their own: blocks until the members have elected it, and returns the number of its term. 0: nobody else can
// have a copy of the journal, or the job has ended in order. kStale: another coordinator has taken over, and
// this directory lacks what it has done. kAborted: a signal came.
Result<uint64_t> ElectRestarted(const std::string& directory, protocol::Role elector_role,
                                const CoordinatorOptions& options);

}  // namespace leat::roles

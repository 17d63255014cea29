// A coordinator that is not one yet: it answers members that look for theirs at its address, and stands for
// election once nobody else answers them (protocol/succession/candidate.h).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "net/rpc/server.h"
#include "protocol/succession/candidate.h"
#include "run/roles/start/coordinator_options.h"

namespace leat::roles {

// Thread-safe.
class Election {
 public:
  // Listens on the address of the coordinator that it may become.
  static Result<std::unique_ptr<Election>> Start(const CoordinatorOptions& options);

  const std::string& address() const { return server_->address(); }
  // From now on members are asked for promises.
  void Stand(protocol::CandidateConfig config, protocol::Electorate electorate);
  void Withdraw();

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

// A coordinator that is not one yet: it answers members that look for theirs at its address, and stands for
// election once nobody else answers them (protocol/succession/candidate.h).
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
#include "net/loop.h"
#include "net/rpc/server.h"
#include "protocol/succession/election.h"
#include "run/roles/background_thread.h"
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

// Watches for a later term while the standbys of a coordinator confirm nothing: one of them may be the
// coordinator by now, and no member tell. Loop's thread only.
class LaterTermWatch {
 public:
  // `coordinator`: number of this coordinator's directory. `others`: the thread that asks; it ends before
  // this object. `on_replaced`: called on the loop with kStale.
  LaterTermWatch(net::Loop& loop, BackgroundThread& others, const CoordinatorOptions& options,
                 uint64_t coordinator, uint64_t term, std::function<void(const Status&)> on_replaced);

  // The last known addresses of standbys are kept when all of them are lost.
  void OnView(const protocol::View& view);
  // `unconfirmed`: the journal waits for standbys, and has for a while.
  void OnTimer(Time now, bool unconfirmed);

 private:
  net::Loop& loop_;
  BackgroundThread& others_;
  const CoordinatorOptions& options_;
  const uint64_t coordinator_;
  const uint64_t term_;
  const std::function<void(const Status&)> on_replaced_;
  std::vector<std::string> standbys_;  // addresses
  Time asked_{0};                      // or the last moment at which there was nothing to ask
};

// A coordinator that was restarted with the directory of a job that has, or had, standbys with directories of
// their own: blocks until the members have elected it, and returns the number of its term. 0: nobody else can
// have a copy of the journal, or the job has ended in order. kStale: another coordinator has taken over, and
// this directory lacks what it has done. kAborted: a signal came.
Result<uint64_t> ElectRestarted(const std::string& directory, protocol::Role elector_role,
                                const CoordinatorOptions& options);

}  // namespace leat::roles

// The coordinator's shell around protocol::JournalReplication: standbys with directories of their own get the
// journal, and nothing is done before they have it. While they confirm nothing, one of them may be the
// coordinator by now, and no member tell: they are asked whether there is a later term. Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/succession/replication.h"
#include "run/roles/background_thread.h"
#include "run/roles/commit/commit_queue.h"
#include "run/roles/start/coordinator_options.h"
#include "storage/checkpoint/store.h"

namespace leat::roles {

// How a coordinator begins to ship its journal.
struct JournalShipping {
  protocol::ReplicationConfig config;
  protocol::Electorate electorate = protocol::Electorate(protocol::Role::kServer);  // by its journal so far
};

class JournalShipper {
 public:
  struct Options {
    JournalShipping begin;
    uint64_t checkpoint = 0;  // the newest complete one
    std::string transfers;    // JoinReply::transfers
    std::function<void(const Status&)> on_replaced;
    std::function<void(protocol::DropCheckpoints)> drop;
  };
  using Answer = std::function<void(protocol::ControlReply)>;

  // Reads the journal on the background thread, on which nothing else writes it, and asks standbys on
  // `others`; both end before this object. `queue`: of the journal's records and the actions that wait for
  // them.
  JournalShipper(LoopWork& work, BackgroundThread& background, BackgroundThread& others,
                 checkpoint::Store& store, CommitQueue& queue, const CoordinatorOptions& coordinator,
                 Options options);

  // Answers requests of standbys, and late promises of members; false: the request is another one.
  bool Handle(const protocol::ControlRequest& request, Answer& answer);
  // Takes a member's promise from its heartbeat.
  void OnHeartbeat(uint64_t call, const protocol::ControlRequest& request);
  // The reply that the member may get before the journal is agreed: the coordinators that may be elected.
  // None: it knows them.
  std::optional<protocol::ControlReply> EarlyReply(uint64_t call, const protocol::ControlRequest& request);
  // Adds the coordinators that may be elected to the answer of a member's heartbeat.
  void AddCoordinators(uint64_t call, protocol::ControlReply* reply);

  // The records are on this coordinator's disk (CommitQueue::Agreement).
  uint64_t OnWritten(std::span<const protocol::JournalRecord> records);
  uint64_t agreed() const { return replication_.agreed(); }
  bool founded() const { return replication_.founded(); }  // it may act on agreed records

  void OnCheckpoint(uint64_t id) {
    replication_.OnCheckpoint(id);
    Update();
  }
  // Dropped as soon as all standbys can do without.
  void Drop(protocol::DropCheckpoints what) {
    drop_ = std::move(what);
    Update();
  }
  // The last known addresses of standbys are kept when all of them are lost.
  void OnView(const protocol::View& view) {
    if (auto standbys = view.standbys(); !standbys.empty()) standbys_ = std::move(standbys);
  }
  void OnTimer();
  std::string WaitsFor() const { return replication_.WaitsFor(); }

 private:
  Time Now() const { return work_.loop().Now(); }
  void Update();
  void ReadSnapshot();
  void LookForLaterTerm();

  LoopWork& work_;
  BackgroundThread& background_;
  BackgroundThread& others_;
  checkpoint::Store& store_;
  CommitQueue& queue_;
  const CoordinatorOptions& coordinator_;
  Options options_;
  protocol::JournalReplication replication_;
  uint64_t last_call_ = 0;
  std::map<uint64_t, Answer> calls_;                     // standbys' calls
  std::map<uint64_t, protocol::ElectorState> electors_;  // by call
  std::optional<protocol::DropCheckpoints> drop_;
  std::string waits_for_;              // as logged
  std::vector<std::string> standbys_;  // addresses
  Time asked_{0};                      // them for a later term, or the last moment without a need to
  bool replaced_ = false;
};

}  // namespace leat::roles

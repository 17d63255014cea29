// The coordinator's shell around protocol::JournalReplication: standbys with directories of their own get the
// journal, and nothing is done before they have it. Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "storage/checkpoint/store.h"
#include "net/loop.h"
#include "protocol/succession/replication.h"
#include "run/roles/background_thread.h"

namespace leat::roles {

class Replicator {
 public:
  struct Options {
    protocol::ReplicationConfig config;
    protocol::Electorate electorate;
    uint64_t checkpoint = 0;                               // the newest complete one
    std::string transfers;                                 // JoinReply::transfers
    std::function<void(protocol::JournalAgreed)> journal;  // to be appended to the journal
    std::function<void()> on_agreed;                       // more of the journal may be agreed
    std::function<void(const Status&)> on_replaced;
    std::function<void(protocol::DropCheckpoints)> drop;
    std::function<bool()> idle;  // nothing is being written to the journal, or waits for that
  };
  using Answer = std::function<void(protocol::ControlReply)>;

  // Reads the journal on the background thread, on which nothing else writes it.
  Replicator(net::Loop& loop, BackgroundThread& background, checkpoint::Store& store, Options options);
  ~Replicator();
  Replicator(const Replicator&) = delete;
  Replicator& operator=(const Replicator&) = delete;

  // Takes requests of standbys, and late promises of members; false: the request is another one.
  bool Take(const protocol::ControlRequest& request, Answer& answer);
  // Notes a member's promise in its heartbeat.
  void OnHeartbeat(uint64_t call, const protocol::ControlRequest& request);
  // The reply that the member may get before the journal is agreed: the coordinators that may be elected.
  // None: it knows them.
  std::optional<protocol::ControlReply> EarlyReply(uint64_t call, const protocol::ControlRequest& request);
  // Adds them to the answer of a member's heartbeat.
  void Stamp(uint64_t call, protocol::ControlReply* reply);

  // The records are on this coordinator's disk (CommitQueue::Agreement).
  uint64_t Publish(std::span<const protocol::JournalRecord> records);
  uint64_t agreed() const { return replication_.agreed(); }
  bool founded() const { return replication_.founded(); }  // it may act on agreed records

  void OnCheckpoint(uint64_t id);
  // Dropped as soon as all standbys can do without.
  void Drop(protocol::DropCheckpoints what);
  void Tick();
  std::string WaitsFor() const { return replication_.WaitsFor(); }

 private:
  void Update();
  void ReadSnapshot();

  net::Loop& loop_;
  BackgroundThread& background_;
  checkpoint::Store& store_;
  Options options_;
  protocol::JournalReplication replication_;
  uint64_t last_call_ = 0;
  std::map<uint64_t, Answer> calls_;                     // standbys' calls
  std::map<uint64_t, protocol::ElectorState> electors_;  // by call
  std::optional<protocol::DropCheckpoints> drop_;
  std::string waits_for_;  // as logged
  bool replaced_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace leat::roles

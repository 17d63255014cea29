// Everything that leaves the coordinator: ids, journal records, replies, actions, and the view. Every concern
// of the coordinator gets it, and none needs the coordinator itself.
//
// Invariants:
// - An id is given once, also across coordinators: its block is journaled before the first id of it is used.
// - DrainActions returns the records of an input before its replies, and these before all other actions.
//   Within each of the three, the order is that of the calls.
// - A reply that leases something, ends a role, or confirms a command follows a record or a ConfirmTerm, so
//   no coordinator that was replaced sends it.
// - A view has a higher generation than those before it. It is made when it is asked for, at most once per
//   change.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/shared.h"
#include "base/status.h"
#include "protocol/messages_control.h"
#include "protocol/records/journal.h"
#include "protocol/records/manifest.h"

namespace leat::protocol {

// The actions that the coordinator asks of its shell, which executes those of one input in order.
struct Reply {
  uint64_t call = 0;
  ControlReply reply;
};
struct AppendJournal {  // append and sync; OnReplaced if another coordinator has sealed the journal before
  JournalRecord record;
};
// No record, but the following actions need to know that the journal has no seal; OnReplaced if it has one.
struct ConfirmTerm {};
struct PrepareCheckpoint {  // make the directory; answer OnCheckpointPrepared
  uint64_t id = 0;
  uint64_t bytes = 0;               // an estimate of its size
  std::vector<Position> watermark;  // as of now
};
struct CommitManifest {  // write, sync and rename, the manifest last; answer OnManifestCommitted
  Manifest manifest;
};
struct DropCheckpoints {  // remove checkpoints older than this id; the journal may drop records before
                          // `watermark`
  uint64_t oldest_kept = 0;
  // Position of the oldest kept checkpoint, or of predictions that are still to be published.
  std::vector<Position> watermark;
};
struct RemoveCheckpoint {  // remove one that was given up
  uint64_t id = 0;
};
// Slices cannot be restored from a checkpoint. Read all of it; if it is damaged (kDataLoss), and there is one
// before it, keep it aside and publish that one. Answer OnCheckpointVerified.
struct VerifyCheckpoint {
  uint64_t id = 0;
  std::optional<Manifest> before;  // the one that takes its place
};
struct JobEnded {
  Status status;          // ok: finished, or stopped on demand; kStale: another coordinator goes on with it
  bool finished = false;  // every event of the stream is in the newest checkpoint
  MembersLeft left;  // append it if that is possible, so that the next coordinator does not wait for them
};
using CoordinatorAction = std::variant<Reply, AppendJournal, ConfirmTerm, PrepareCheckpoint, CommitManifest,
                                       DropCheckpoints, RemoveCheckpoint, VerifyCheckpoint, JobEnded>;
using CoordinatorActions = std::vector<CoordinatorAction>;

class Outbox {
 public:
  // `fill_view` fills in a view that has its generation: the router asks all concerns for their part.
  explicit Outbox(std::function<void(View*)> fill_view) : fill_view_(std::move(fill_view)) {}

  // ---- ids
  uint64_t NextId() { return Take(&ids_, 4096); }  // for leases, incarnations and generations
  NodeId NextNode() { return NodeId(Take(&nodes_, 64)); }
  // Ids below these may be in use.
  void Restore(const IdsReserved& used) {
    nodes_.Restore(used.node);
    ids_.Restore(used.lease);
  }
  uint64_t next_id() const { return ids_.next; }
  uint64_t reserved_ids() const { return ids_.reserved; }  // ids below are journaled

  // ---- the actions of an input
  void Journal(JournalRecord record) { journals_.push_back({std::move(record)}); }
  void Answer(uint64_t call, ControlReply reply) { replies_.push_back({call, std::move(reply)}); }
  void Refuse(uint64_t call, Code code, std::string why) {
    Answer(call, Refusal{Status(code, std::move(why))});
  }
  void Request(CoordinatorAction action) { requests_.push_back(std::move(action)); }
  // `stopping`: every reply ends a role.
  CoordinatorActions DrainActions(bool stopping);
  // Nothing of this input happens.
  void Discard() {
    journals_.clear();
    replies_.clear();
    requests_.clear();
  }

  // ---- the view
  void ChangeView() { view_changed_ = true; }
  const Shared<View>& view() const { return view_; }  // the last one that was made
  const Shared<View>& RefreshView();

 private:
  // Blocks of ids are journaled before use.
  struct Counter {
    uint64_t next = 1;
    uint64_t reserved = 1;  // ids below are journaled
    void Restore(uint64_t used) { next = reserved = std::max(reserved, used); }
  };
  uint64_t Take(Counter* counter, uint64_t block);

  std::function<void(View*)> fill_view_;
  Counter ids_, nodes_;
  std::vector<AppendJournal> journals_;
  std::vector<Reply> replies_;
  std::vector<CoordinatorAction> requests_;
  bool view_changed_ = true;
  Shared<View> view_ = View();
};

}  // namespace leat::protocol

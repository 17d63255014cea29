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

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/shared.h"
#include "protocol/messages_control.h"
#include "protocol/outbox/coordinator_actions.h"

namespace leat::protocol {

class Outbox {
 public:
  // `fill_view` fills in a view that has its generation: the router asks all concerns for their part.
  explicit Outbox(std::function<void(View*)> fill_view) : fill_view_(std::move(fill_view)) {}

  // ---- ids
  uint64_t NextId();  // for leases, incarnations and generations
  NodeId NextNode();
  // Ids below these may be in use.
  void Restore(const IdsReserved& used);
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
  void Discard();

  // ---- the view
  void ChangeView() { view_changed_ = true; }
  const Shared<View>& view() const { return view_; }  // the last one that was made
  const Shared<View>& RefreshView();

 private:
  // Blocks of ids are journaled before use.
  struct Counter {
    uint64_t next = 1;
    uint64_t reserved = 1;  // ids below are journaled
    void Restore(uint64_t used);
  };
  void Reserve(Counter* counter, uint64_t block);

  std::function<void(View*)> fill_view_;
  Counter ids_, nodes_;
  std::vector<AppendJournal> journals_;
  std::vector<Reply> replies_;
  std::vector<CoordinatorAction> requests_;
  bool view_changed_ = true;
  Shared<View> view_ = View();
};

}  // namespace leat::protocol

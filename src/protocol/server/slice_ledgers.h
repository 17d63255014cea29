// The ledgers of a server's slices. Nearly all are equal nearly always, so equal ones are kept once, with the
// runs that only some of the slices hold so far beside them: a push to twelve slices is noted once, and a
// report compares next to nothing.
//
// To each slice it is a Ledger of its own. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/cut.h"
#include "protocol/ledger.h"

namespace leat::protocol {

struct RunId {
  Cut cut;
  uint32_t run = 0;
  friend bool operator==(const RunId&, const RunId&) = default;
};

class SliceLedgers {
 public:
  // Of slices 0 … slices - 1, none of which has a ledger yet.
  explicit SliceLedgers(size_t slices);

  // In place of what it had.
  void Put(uint32_t slice, Ledger ledger);
  void Drop(uint32_t slice);

  // As a Ledger's, for a slice that has one.
  Ledger::Entry Lookup(uint32_t slice, const Cut& cut, uint32_t run) {
    SelectRun(cut, run);
    return Lookup(slice);
  }
  Ledger::Entry Record(uint32_t slice, const Cut& cut, uint32_t run) {
    SelectRun(cut, run);
    return Record(slice);
  }
  // The same in two parts: of which run, and then of each slice of a push.
  void SelectRun(const Cut& cut, uint32_t run) {
    if (last_.run.run != run || last_.run.cut != cut) last_ = {kNone, 0, {cut, run}};
  }
  Ledger::Entry Lookup(uint32_t slice) {
    const uint32_t at = class_of_[slice];
    const bool known = at == last_.group && at != kNone && last_.changes == classes_[at].changes;
    return known && classes_[at].pending.empty() ? last_.entry : LookupSlow(slice);
  }
  Ledger::Entry Record(uint32_t slice) {
    const uint32_t at = class_of_[slice];
    // Mostly another slice of the group has noted the run just now, and nothing else waits for some of them.
    if (at == last_.group && at != kNone && last_.pending == 0) {
      LedgerClass& group = classes_[at];
      if (last_.changes == group.changes && group.pending.size() == 1) {
        Pending& held = group.pending[0];
        if (!Has(held.holders, slice)) {
          Set(&held.holders, slice);
          if (++held.count == group.count) MergePending(&group);
          return Ledger::Entry::kNew;
        }
      }
    }
    return RecordSlow(slice);
  }
  // All of a step at once, each of which looked new.
  void Record(uint32_t slice, std::span<const RunId> runs);
  Ledger Get(uint32_t slice) const;

  struct Equal {
    std::vector<uint32_t> slices;  // rising
    std::vector<PartitionLedger> partitions;
  };
  // Which slices have equal ledgers, and what is in them; by the lowest slice.
  std::vector<Equal> Classes();

 private:
  friend struct PrefetchHints;
  // A set of slices.
  using Mask = std::vector<uint64_t>;
  // Runs that some slices of a group hold, and the others don't yet.
  struct Pending {
    std::vector<RunId> runs;
    Mask holders;
    uint32_t count = 0;
  };
  struct LedgerClass {
    Ledger ledger;  // what all of them hold
    Mask members;
    uint32_t count = 0;
    uint64_t changes = 0;  // of `ledger`, and of places in `pending`
    std::vector<Pending> pending;
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  // More than that many, and slices that differ part for good.
  static constexpr size_t kMaxPending = 64;

  Mask None() const { return Mask(words_, 0); }
  static bool Has(const Mask& mask, uint32_t slice) { return (mask[slice / 64] >> (slice % 64) & 1) != 0; }
  static void Set(Mask* mask, uint32_t slice) { (*mask)[slice / 64] |= uint64_t{1} << (slice % 64); }
  static void Clear(Mask* mask, uint32_t slice) { (*mask)[slice / 64] &= ~(uint64_t{1} << (slice % 64)); }
  static std::vector<uint32_t> Members(const Mask& mask);
  Ledger::Entry LookupSlow(uint32_t slice);
  Ledger::Entry RecordSlow(uint32_t slice);
  uint32_t FreeGroup();
  void Join(uint32_t slice, Ledger ledger);
  void MergePending(LedgerClass* group);  // moves what all hold by now into the ledger
  // Where in the group's `pending` these runs are, from now on.
  uint32_t PendingOf(LedgerClass* group, std::span<const RunId> runs);
  void Hold(uint32_t group, uint32_t pending, uint32_t slice);
  void SplitClass(uint32_t group);

  size_t words_ = 0;
  std::vector<uint32_t> class_of_;    // by slice
  std::vector<LedgerClass> classes_;  // those without members are free
  std::vector<Pending> spare_;        // for their memory
  // What was asked last, the answer of a group's ledger, and where the run was noted since: a push asks the
  // same for each slice.
  struct Answer {
    uint32_t group = kNone;
    uint64_t changes = 0;
    RunId run;
    Ledger::Entry entry{};
    uint32_t pending = kNone;  // of the group's, that has this run alone
  };
  Answer last_;
};

}  // namespace leat::protocol

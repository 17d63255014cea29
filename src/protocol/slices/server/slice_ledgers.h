// The ledgers of a server's slices. Most are equal most of the time, so slices with equal ledgers share one
// (a class), together with the runs that only some of them have yet. A push to twelve slices is therefore
// recorded once, and a report needs almost no comparisons.
//
// For each slice it behaves like a separate Ledger. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/cut.h"
#include "protocol/ledger.h"
#include "protocol/messages_data.h"

namespace leat::protocol {

struct RunId {
  Cut cut;
  uint32_t run = 0;
  friend bool operator==(const RunId&, const RunId&) = default;
};

// The outcome of a run that a slice has already, or that contradicts its ledger; none: the run is new.
inline std::optional<SliceOutcome> OutcomeOf(Ledger::Entry entry) {
  if (entry == Ledger::Entry::kNew) return std::nullopt;
  return entry == Ledger::Entry::kConflict ? SliceOutcome::kConflict : SliceOutcome::kDuplicate;
}

class SliceLedgers {
 public:
  // For slices 0 … slices - 1, none of which has a ledger yet.
  explicit SliceLedgers(size_t slices);

  // Replaces the slice's ledger.
  void Put(uint32_t slice, Ledger ledger) {
    Drop(slice);
    Join(slice, std::move(ledger));
  }
  void Drop(uint32_t slice);

  // Selects the run that is then looked up or recorded for each slice of a push. Lookup and Record are as
  // Ledger's, for a slice that has a ledger.
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
    // Fast path: another slice of the class has just recorded the run, and no other run is pending.
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
  // Records all runs of a step at once. Lookup returned kNew for each.
  void Record(uint32_t slice, std::span<const RunId> runs);
  Ledger Get(uint32_t slice) const;

  struct Equal {
    std::vector<uint32_t> slices;  // ascending
    std::vector<PartitionLedger> partitions;
  };
  // The classes of slices with equal ledgers, ordered by their lowest slice.
  std::vector<Equal> Classes();

 private:
  friend struct PrefetchHints;
  // A set of slices.
  using Mask = std::vector<uint64_t>;
  // Runs that only some slices of a class have yet.
  struct Pending {
    std::vector<RunId> runs;
    Mask holders;
    uint32_t count = 0;
  };
  struct LedgerClass {
    Ledger ledger;  // the runs that all members have
    Mask members;
    uint32_t count = 0;
    uint64_t changes = 0;  // changes of `ledger`, and of indices in `pending`
    std::vector<Pending> pending;
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  // With more than this many, the class is split for good.
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
  void MergePending(LedgerClass* group);  // moves what all slices have into the ledger
  // The index of these runs in the class's `pending`, added if necessary.
  uint32_t PendingOf(LedgerClass* group, std::span<const RunId> runs);
  void Hold(uint32_t group, uint32_t pending, uint32_t slice);
  void SplitClass(uint32_t group);

  size_t words_ = 0;
  std::vector<uint32_t> class_of_;    // by slice
  std::vector<LedgerClass> classes_;  // classes without members are free
  std::vector<Pending> spare_;        // reused memory
  // Cache of the last run, its entry in a class's ledger, and where it was recorded since: a push asks the
  // same for each slice.
  struct Answer {
    uint32_t group = kNone;
    uint64_t changes = 0;
    RunId run;
    Ledger::Entry entry{};
    uint32_t pending = kNone;  // index of the class's pending entry with this run alone
  };
  Answer last_;
};

}  // namespace leat::protocol

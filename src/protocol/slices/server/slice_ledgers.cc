#include "protocol/slices/server/slice_ledgers.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "protocol/guards.h"

namespace leat::protocol {

namespace {

bool Overlap(const Cut& a, const Cut& b) {
  return a.partition == b.partition && a.after < b.next() && b.after < a.next();
}

}  // namespace

SliceLedgers::SliceLedgers(size_t slices) : words_((slices + 63) / 64), class_of_(slices, kNone) {}

std::vector<uint32_t> SliceLedgers::Members(const Mask& mask) {
  std::vector<uint32_t> slices;
  for (size_t w = 0; w < mask.size(); ++w) {
    for (uint64_t rest = mask[w]; rest != 0; rest &= rest - 1) {
      slices.push_back(static_cast<uint32_t>(w * 64) + static_cast<uint32_t>(std::countr_zero(rest)));
    }
  }
  return slices;
}

uint32_t SliceLedgers::FreeGroup() {
  const auto free = std::ranges::find(classes_, 0u, &LedgerClass::count);
  const auto at = static_cast<uint32_t>(free - classes_.begin());
  if (free == classes_.end()) classes_.emplace_back();
  LedgerClass& group = classes_[at];
  group.members = None();
  group.pending.clear();
  ++group.changes;
  return at;
}

void SliceLedgers::Join(uint32_t slice, Ledger ledger) {
  auto group =
      std::ranges::find_if(classes_, [&](const LedgerClass& g) { return g.count > 0 && g.ledger == ledger; });
  if (group == classes_.end()) {
    const auto at = FreeGroup();  // before begin(), which it may move
    group = classes_.begin() + at;
    group->ledger = std::move(ledger);
  }
  Set(&group->members, slice);
  ++group->count;
  class_of_[slice] = static_cast<uint32_t>(group - classes_.begin());
}

void SliceLedgers::Drop(uint32_t slice) {
  if (class_of_[slice] == kNone) return;
  LedgerClass& group = classes_[std::exchange(class_of_[slice], kNone)];
  Clear(&group.members, slice);
  --group.count;
  for (Pending& pending : group.pending) {
    if (!Has(pending.holders, slice)) continue;
    Clear(&pending.holders, slice);
    --pending.count;
  }
  MergePending(&group);
}

void SliceLedgers::MergePending(LedgerClass* group) {
  for (size_t i = 0; i < group->pending.size();) {
    Pending& pending = group->pending[i];
    if (pending.count > 0 && pending.count < group->count) {
      ++i;
      continue;
    }
    if (pending.count > 0) {
      for (const RunId& run : pending.runs) group->ledger.Record(run.cut, run.run);
    }
    ++group->changes;
    spare_.push_back(std::move(pending));
    group->pending.erase(group->pending.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Ledger::Entry SliceLedgers::LookupSlow(uint32_t slice) {
  const auto& [cut, run] = last_.run;
  const uint32_t at = class_of_[slice];
  LEAT_CHECK(at != kNone);
  const LedgerClass& group = classes_[at];
  if (last_.group != at || last_.changes != group.changes) {
    last_.group = at;
    last_.changes = group.changes;
    last_.entry = group.ledger.Lookup(cut, run);
    last_.pending = kNone;
  }
  if (last_.entry == Ledger::Entry::kDuplicate) return last_.entry;
  for (const Pending& pending : group.pending) {
    if (!Has(pending.holders, slice)) continue;
    bool contradicts = last_.entry == Ledger::Entry::kConflict;
    for (const RunId& held : pending.runs) {
      if (held.cut == cut && held.run == run && guards::AlreadyApplied(true))
        return Ledger::Entry::kDuplicate;
      contradicts = contradicts || (held.cut != cut && Overlap(held.cut, cut));
    }
    // Unless all of it is recorded by now.
    if (contradicts) return Get(slice).Lookup(cut, run);
  }
  return last_.entry;
}

Ledger::Entry SliceLedgers::RecordSlow(uint32_t slice) {
  const Ledger::Entry entry = Lookup(slice);
  if (entry != Ledger::Entry::kNew) return entry;
  LedgerClass& group = classes_[last_.group];
  if (group.count == 1) {
    Record(slice, std::span(&last_.run, 1));
    return entry;
  }
  if (last_.pending == kNone) last_.pending = PendingOf(&group, std::span(&last_.run, 1));
  Hold(last_.group, last_.pending, slice);
  return entry;
}

void SliceLedgers::Record(uint32_t slice, std::span<const RunId> runs) {
  const uint32_t at = class_of_[slice];
  LEAT_CHECK(at != kNone);
  LedgerClass& group = classes_[at];
  if (group.count == 1) {
    for (const RunId& run : runs) group.ledger.Record(run.cut, run.run);
    ++group.changes;
    return;
  }
  Hold(at, PendingOf(&group, runs), slice);
}

uint32_t SliceLedgers::PendingOf(LedgerClass* group, std::span<const RunId> runs) {
  const auto there = std::ranges::find_if(
      group->pending, [&](const Pending& pending) { return std::ranges::equal(pending.runs, runs); });
  const auto hosted = static_cast<uint32_t>(there - group->pending.begin());
  if (there != group->pending.end()) return hosted;
  Pending fresh;
  if (!spare_.empty()) {
    fresh = std::move(spare_.back());
    spare_.pop_back();
  }
  fresh.runs.assign(runs.begin(), runs.end());
  fresh.holders.assign(words_, 0);
  fresh.count = 0;
  group->pending.push_back(std::move(fresh));
  return hosted;
}

void SliceLedgers::Hold(uint32_t at, uint32_t pending, uint32_t slice) {
  LedgerClass& group = classes_[at];
  Pending& held = group.pending[pending];
  if (Has(held.holders, slice)) return;  // only in the mutant without this check
  Set(&held.holders, slice);
  if (++held.count == group.count) {
    MergePending(&group);
  } else if (group.pending.size() > kMaxPending) {
    SplitClass(at);
  }
}

// Splits a class into slices that have the same runs.
void SliceLedgers::SplitClass(uint32_t from) {
  const std::vector<uint32_t> slices = Members(classes_[from].members);
  std::vector<Ledger> ledgers;
  ledgers.reserve(slices.size());
  for (const uint32_t slice : slices) ledgers.push_back(Get(slice));
  for (Pending& pending : classes_[from].pending) spare_.push_back(std::move(pending));
  classes_[from].pending.clear();
  classes_[from].count = 0;
  ++classes_[from].changes;
  for (size_t i = 0; i < slices.size(); ++i) Join(slices[i], std::move(ledgers[i]));
}

Ledger SliceLedgers::Get(uint32_t slice) const {
  const uint32_t at = class_of_[slice];
  if (at == kNone) return {};
  const LedgerClass& group = classes_[at];
  Ledger ledger = group.ledger;
  for (const Pending& pending : group.pending) {
    if (!Has(pending.holders, slice)) continue;
    for (const RunId& run : pending.runs) ledger.Record(run.cut, run.run);
  }
  return ledger;
}

std::vector<SliceLedgers::Equal> SliceLedgers::Classes() {
  // Merges classes that have become equal.
  for (size_t a = 0; a < classes_.size(); ++a) {
    for (size_t b = a + 1; b < classes_.size(); ++b) {
      if (classes_[a].count == 0 || classes_[b].count == 0 || !classes_[b].pending.empty()) continue;
      if (classes_[a].ledger != classes_[b].ledger) continue;
      for (const uint32_t slice : Members(classes_[b].members)) {
        class_of_[slice] = static_cast<uint32_t>(a);
        Set(&classes_[a].members, slice);
        ++classes_[a].count;
      }
      classes_[b].count = 0;
    }
  }
  std::vector<Equal> classes;
  for (const LedgerClass& group : classes_) {
    if (group.count == 0) continue;
    const size_t first = classes.size();
    for (const uint32_t slice : Members(group.members)) {
      const auto same = std::find_if(classes.begin() + static_cast<std::ptrdiff_t>(first), classes.end(),
                                     [&](const Equal& equal) {
                                       return std::ranges::all_of(group.pending, [&](const Pending& p) {
                                         return Has(p.holders, slice) == Has(p.holders, equal.slices[0]);
                                       });
                                     });
      if (same != classes.end()) {
        same->slices.push_back(slice);
      } else {
        classes.push_back({{slice}, Get(slice).partitions()});
      }
    }
  }
  std::ranges::sort(classes, {}, [](const Equal& equal) { return equal.slices[0]; });
  return classes;
}

}  // namespace leat::protocol

#include "protocol/ledger.h"

#include <algorithm>

#include "base/fields/codec.h"
#include "protocol/guards.h"

namespace leat::protocol {

namespace {

constexpr fields::AtMost kMostPartitions = {1 << 16};

// The first open split that begins at or after the cut's position. Searches from the guessed index in growing
// steps: the split is near, and a search of all splits would read cold memory (bench simulator, 10,000
// workers).
template <class Partition>
auto FirstFrom(Partition& partition, const Cut& cut) {
  auto& open = partition.open;
  const auto before = [](const OpenSplit& split, Position at) { return split.cut.begin < at; };
  auto at = open.begin() + static_cast<std::ptrdiff_t>(GuessIndex(partition, cut));
  if (at != open.end() && at->cut.begin == cut.begin) return at;
  if (at != open.end() && before(*at, cut.begin)) {
    for (std::ptrdiff_t step = 1; open.end() - at > step; step *= 2) {
      if (!before(at[step], cut.begin)) return std::lower_bound(at, at + step, cut.begin, before);
      at += step;
    }
    return std::lower_bound(at, open.end(), cut.begin, before);
  }
  for (std::ptrdiff_t step = 1; at - open.begin() > step; step *= 2) {
    if (before(*(at - step), cut.begin)) return std::lower_bound(at - step, at, cut.begin, before);
    at -= step;
  }
  return std::lower_bound(open.begin(), at, cut.begin, before);
}

}  // namespace

Status Check(const PartitionLedger& partition) {
  Position from = partition.done;
  for (const OpenSplit& split : partition.open) {
    if (split.cut.after < from)
      return {Code::kInvalidArgument,
              "an open split overlaps: cut.begin.offset is " + std::to_string(split.cut.begin.offset)};
    from = split.cut.next();
  }
  return {};
}

Status CheckPartitions(const std::vector<PartitionLedger>& partitions, uint32_t first) {
  for (size_t p = 0; p < partitions.size(); ++p) {
    for (const OpenSplit& split : partitions[p].open) {
      if (split.cut.partition == first + p) continue;
      return {Code::kInvalidArgument, "partition of an open split is " + std::to_string(split.cut.partition) +
                                          ", in the ledger of " + std::to_string(first + p)};
    }
  }
  return {};
}

Ledger::Ledger(const std::vector<Position>& start) {
  partitions_.reserve(start.size());
  for (Position at : start) partitions_.push_back({at, {}});
}

Ledger::Entry Ledger::Lookup(const Cut& cut, uint32_t batch, std::optional<size_t>* index) const {
  if (cut.partition >= partitions_.size() || !cut.valid() || batch >= cut.runs()) return Entry::kConflict;
  const PartitionLedger& partition = partitions_[cut.partition];
  bool held = false;
  if (cut.begin < partition.done) {
    if (cut.next() > partition.done) return Entry::kConflict;
    held = true;
  } else {
    if (cut.after < partition.done) return Entry::kConflict;
    const auto at = FirstFrom(partition, cut);
    *index = static_cast<size_t>(at - partition.open.begin());
    if (at != partition.open.end() && at->cut.begin == cut.begin) {
      if (at->cut != cut) return Entry::kConflict;
      held = at->batches.Has(batch);
    } else {
      if (partition.open.size() >= kMaxOpen) return Entry::kConflict;
      if (at != partition.open.end() && cut.next() > at->cut.after) return Entry::kConflict;
      if (at != partition.open.begin() && std::prev(at)->cut.next() > cut.after) return Entry::kConflict;
    }
  }
  return guards::AlreadyApplied(held) ? Entry::kDuplicate : Entry::kNew;
}

Ledger::Entry Ledger::Record(const Cut& cut, uint32_t batch) {
  std::optional<size_t> index;
  const Entry entry = Lookup(cut, batch, &index);
  if (entry != Entry::kNew || !index) return entry;  // without an index only in the mutant without this check
  PartitionLedger& partition = partitions_[cut.partition];
  auto at = partition.open.begin() + static_cast<std::ptrdiff_t>(*index);
  if (at == partition.open.end() || at->cut.begin != cut.begin) {
    at = partition.open.insert(at, {cut, RunSet(cut.runs())});
  }
  at->batches.Add(batch);

  auto full = partition.open.begin();
  while (full != partition.open.end() && full->cut.after == partition.done && full->batches.full()) {
    partition.done = full->cut.next();
    ++full;
  }
  partition.open.erase(partition.open.begin(), full);
  return entry;
}

RunSet Ledger::Held(const Cut& cut) const {
  return HeldRuns(partitions_, cut);
}

RunSet HeldRuns(const std::vector<PartitionLedger>& partitions, const Cut& cut) {
  if (cut.partition >= partitions.size()) return RunSet(cut.runs());
  const PartitionLedger& partition = partitions[cut.partition];
  if (cut.next() <= partition.done) return RunSet(cut.runs(), true);
  const auto at = FirstFrom(partition, cut);
  if (at == partition.open.end() || at->cut != cut) return RunSet(cut.runs());
  // The set comes from a peer or a file: it gets the cut's size here.
  return RunSet(cut.runs(), at->batches.words());
}

PartitionLedger Growth(const PartitionLedger& before, const PartitionLedger& now) {
  PartitionLedger growth{now.done, {}};
  auto old = before.open.begin();
  for (const OpenSplit& split : now.open) {
    while (old != before.open.end() && old->cut.begin < split.cut.begin) ++old;
    if (old == before.open.end() || *old != split) growth.open.push_back(split);
  }
  return growth;
}

void Add(const PartitionLedger& reported, PartitionLedger* known) {
  known->done = std::max(known->done, reported.done);
  std::vector<OpenSplit> open;
  open.reserve(known->open.size() + reported.open.size());
  auto old = known->open.begin();
  const auto keep = [&](OpenSplit split) {
    if (split.cut.begin >= known->done && open.size() < Ledger::kMaxOpen) open.push_back(std::move(split));
  };
  Position from = reported.done;
  for (const OpenSplit& split : reported.open) {
    // It comes from a peer: an entry that no ledger has is left out, and the set gets the cut's size.
    if (!split.cut.valid() || split.cut.after < from) continue;
    from = split.cut.next();
    while (old != known->open.end() && old->cut.begin < split.cut.begin) keep(std::move(*old++));
    RunSet runs(split.cut.runs(), split.batches.words());
    if (old != known->open.end() && old->cut.begin == split.cut.begin) {
      if (old->cut == split.cut) runs |= old->batches;
      ++old;
    }
    keep({split.cut, std::move(runs)});
  }
  while (old != known->open.end()) keep(std::move(*old++));
  known->open = std::move(open);
}

void PutField(const Ledger& ledger, fields::Writer* out) {
  out->Put(ledger.partitions(), kMostPartitions);
}

void GetField(Ledger* ledger, fields::Reader* in) {
  std::vector<PartitionLedger> partitions;
  in->Get(&partitions, kMostPartitions);
  if (const Status status = CheckPartitions(partitions); !status.ok()) in->Fail(": " + status.message());
  if (in->ok()) *ledger = Ledger(std::move(partitions));
}

}  // namespace leat::protocol

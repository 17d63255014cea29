// The ledger of one slice: the identities of all runs applied to it (docs/protocol/push.md).
//
// For each partition, `done` covers everything before a position, and each open split after it has a set of
// runs. Plain data: saved, moved and reported unchanged. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/cut.h"

namespace leat::protocol {

struct OpenSplit {
  Cut cut;
  RunSet batches;  // runs that the slice has
};
LEAT_FIELDS(OpenSplit, (cut), (batches, RunsOf(self.cut)));

struct PartitionLedger {
  Position done;                // every run of every cut before it is recorded
  std::vector<OpenSplit> open;  // ordered by cut.begin; cuts never overlap
};
LEAT_FIELDS(PartitionLedger, (done), (open, AtMost(1 << 16)));
Status Check(const PartitionLedger& partition);
// The ledgers of partitions first, first + 1, …: their open splits are of them.
Status CheckPartitions(const std::vector<PartitionLedger>& partitions, uint32_t first = 0);

class Ledger {
 public:
  enum class Entry : uint8_t {
    kNew,        // was not recorded; is recorded now
    kDuplicate,  // already recorded: acknowledge, do not apply
    kConflict,   // overlaps another open cut, or is not a run of a valid cut: refuse
  };
  // The maximum number of open splits per partition, above the number ever leased at a time. A run of one
  // more is a conflict, so that no peer can make a ledger grow without bound.
  static constexpr size_t kMaxOpen = 8192;

  Ledger() = default;
  // An empty ledger; each partition begins where the job starts reading it.
  explicit Ledger(const std::vector<Position>& start);
  explicit Ledger(std::vector<PartitionLedger> partitions) : partitions_(std::move(partitions)) {}

  // The result that Record would return, without a change.
  Entry Lookup(const Cut& cut, uint32_t batch) const {
    std::optional<size_t> index;
    return Lookup(cut, batch, &index);
  }
  // Records a run, and advances `done` over every split that is complete.
  Entry Record(const Cut& cut, uint32_t batch);
  // Recorded runs of the cut (all of them if it lies before `done`).
  RunSet Held(const Cut& cut) const;

  const std::vector<PartitionLedger>& partitions() const { return partitions_; }
  friend bool operator==(const Ledger&, const Ledger&) = default;

 private:
  // `index`: position of the cut among the open splits of its partition, or where it would be inserted; none
  // if it lies before `done`.
  Entry Lookup(const Cut& cut, uint32_t batch, std::optional<size_t>* index) const;

  std::vector<PartitionLedger> partitions_;
};

// Estimates the index of the cut among the open splits, at most partition.open.size(), by interpolation:
// most splits have the same size, and missing ones are spread evenly.
inline size_t GuessIndex(const PartitionLedger& partition, const Cut& cut) {
  const auto& open = partition.open;
  if (open.empty() || cut.begin <= open.front().cut.begin) return 0;
  const Position first = open.front().cut.begin, last = open.back().cut.begin;
  if (first.epoch != last.epoch || cut.begin >= last) return open.size() - (cut.begin == last ? 1 : 0);
  const double share =
      static_cast<double>(cut.begin.offset - first.offset) / static_cast<double>(last.offset - first.offset);
  return static_cast<size_t>(share * static_cast<double>(open.size() - 1) + 0.5);
}

// As Held, for a ledger reported by a peer: contradicting or missing entries count as not recorded.
RunSet HeldRuns(const std::vector<PartitionLedger>& partitions, const Cut& cut);

// The growth from `before`, an earlier state of the same ledger, to `now`: `done`, and the open splits with
// more runs.
PartitionLedger Growth(const PartitionLedger& before, const PartitionLedger& now);
// Adds what a peer has reported about the same ledger. Both are true of it, in any order of reporting. At
// most Ledger::kMaxOpen open splits are kept: no ledger has more.
void Add(const PartitionLedger& reported, PartitionLedger* known);

// As saved in checkpoints with each slice: the list of its partitions.
void PutField(const Ledger& ledger, fields::Writer* out);
void GetField(Ledger* ledger, fields::Reader* in);
constexpr std::string_view FormatOf(const Ledger*) {
  return "list of PartitionLedger";
}

}  // namespace leat::protocol

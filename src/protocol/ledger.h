// The ledger of one slice: the identities of all batches that it holds (docs/architecture.md: exactly once).
//
// For each partition "everything before `done`", and for each open split after it a set of batches. Plain
// data, so that it is saved, moved and reported as it is. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "protocol/cut.h"

namespace leat::protocol {

struct OpenSplit {
  Cut cut;
  RunSet batches;  // that the slice holds
  friend bool operator==(const OpenSplit&, const OpenSplit&) = default;
};

struct PartitionLedger {
  Position done;                // every batch of every cut before it is held
  std::vector<OpenSplit> open;  // ordered by cut.begin; cuts never overlap
  friend bool operator==(const PartitionLedger&, const PartitionLedger&) = default;
};

class Ledger {
 public:
  enum class Entry : uint8_t {
    kNew,        // was not there; noted now
    kDuplicate,  // held already: acknowledge, don't apply
    kConflict,   // overlaps a different cut that is open here, or is not a batch of a valid cut: refuse
  };
  // Splits that may be open in one partition: more than are ever leased at a time. A batch of one more is a
  // conflict, so that no peer can make a ledger grow without bound.
  static constexpr size_t kMaxOpen = 8192;

  Ledger() = default;
  // Empty, each partition starting where the job started reading it.
  explicit Ledger(const std::vector<Position>& start);
  explicit Ledger(std::vector<PartitionLedger> partitions) : partitions_(std::move(partitions)) {}

  // What Note would say, changing nothing.
  Entry Lookup(const Cut& cut, uint32_t batch) const {
    std::optional<size_t> place;
    return Lookup(cut, batch, &place);
  }
  // Notes the batch as held and moves `done` over every split that is full by then.
  Entry Record(const Cut& cut, uint32_t batch);
  // Batches of the cut that are held (all of them when it lies before `done`).
  RunSet Held(const Cut& cut) const;

  const std::vector<PartitionLedger>& partitions() const { return partitions_; }
  friend bool operator==(const Ledger&, const Ledger&) = default;

 private:
  // `place`: among the open splits of its partition, where the cut is or belongs; none where all of it is
  // done.
  Entry Lookup(const Cut& cut, uint32_t batch, std::optional<size_t>* place) const;

  std::vector<PartitionLedger> partitions_;
};

// About where among the open splits the cut is, or belongs: at most partition.open.size(). Mostly splits are
// of one size, and from `done` on few are missing.
size_t GuessPlace(const PartitionLedger& partition, const Cut& cut);

// The same of a ledger that a peer has reported: a contradicting or missing entry counts as not held.
RunSet HeldRuns(const std::vector<PartitionLedger>& partitions, const Cut& cut);

// As bytes: what checkpoints keep beside each slice. Decoding believes nothing and fails the reader.
void Encode(const Ledger& ledger, ByteWriter* out);
Ledger DecodeLedger(ByteReader* in);

}  // namespace leat::protocol

// Cuts: which events a split holds, and in which batches they are trained.
//
// A cut is a pure function of the position in the stream, or journaled before it is leased, so it comes out
// the same again after any failure. What is pushed, applied and noted as one is a *run* of its batches: one
// batch, or as many as the strategy trains between two pushes (the last run of a cut may have fewer). The
// identity of a run is (cut hash, epoch, partition, begin, index).
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace leat::protocol {

// A place in one partition of the stream: everything before it is (epoch, offset) lexicographically smaller.
struct Position {
  uint32_t epoch = 0;
  uint64_t offset = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

// One split, ready to be leased: events [begin.offset, end) of a partition in one epoch.
struct Cut {
  static constexpr uint32_t kMaxBatches = 1 << 16;
  static constexpr uint32_t kMaxEvents = 1 << 24;

  uint32_t partition = 0;
  Position
      after;  // where the cut before it ended: begin itself, or, for the first of a pass, the last pass's end
  Position begin;
  uint64_t end = 0;
  uint64_t hash = 0;  // covers batch size, run length, shuffle seed, schema, decoder version
  uint32_t batch_size = 1;
  uint64_t shuffle_seed = 0;  // 0: in the order of offsets
  uint32_t run = 1;           // batches of a run

  uint32_t events() const { return static_cast<uint32_t>(end - begin.offset); }
  uint32_t batches() const { return (events() + batch_size - 1) / batch_size; }
  uint32_t runs() const { return (batches() + run - 1) / run; }
  // The batches of run i: [i * run, …), as many.
  uint32_t BatchesOf(uint32_t i) const { return std::min(run, batches() - i * run); }
  // The most good records that run i can have.
  uint64_t EventsOf(uint32_t i) const {
    const uint64_t before = uint64_t{i} * run * batch_size;
    return std::min<uint64_t>(uint64_t{run} * batch_size, events() - before);
  }
  // Where the partition goes on. Whether another pass follows is told by the next cut's `after`, so a stream
  // may grow, and a job be given more epochs, after its end was reached.
  Position next() const { return {begin.epoch, end}; }
  // Non-empty, within the limits, begin where `after` allows it. Asked of every cut that a peer or file
  // brings.
  bool valid() const;
  friend bool operator==(const Cut&, const Cut&) = default;
};

// Order in which a cut's events are trained: order[k] is the k-th event's offset behind begin. Batch i is
// order[i * batch_size, (i + 1) * batch_size); run i is batches i * run and on. Depends on nothing but the
// cut.
void TrainingOrder(const Cut& cut, std::vector<uint32_t>* order);

struct CutRules {
  uint64_t hash = 0;
  uint32_t batch_size = 128;
  uint32_t split_batches = 64;  // batches in a full split
  uint64_t shuffle_seed = 1;
  uint32_t run = 1;     // batches of a run
  uint32_t epochs = 1;  // passes over a sealed stream
};

// The cut by the rules that holds [begin.offset, end).
Cut MakeCut(const CutRules& rules, uint32_t partition, Position after, Position begin, uint64_t end);

// The cut that follows `at` in a partition that holds offsets up to `end` now and starts every epoch at
// `first`. Full splits as long as there is enough; what is left of a sealed partition makes a shorter one,
// and so do the whole batches (or, without one, the events) left of a live partition when `short_tail` is
// set. Nothing when there is nothing to cut.
std::optional<Cut> NextCut(const CutRules& rules, uint32_t partition, Position at, uint64_t first,
                           uint64_t end, bool sealed, bool short_tail);

// True when the rules will never make another cut after `at`, as long as the partition stays as it is.
bool Exhausted(const CutRules& rules, Position at, uint64_t first, uint64_t end, bool sealed);

// A set of runs of one cut, by index.
class RunSet {
 public:
  RunSet() = default;
  explicit RunSet(uint32_t size, bool full = false);
  // From words of a peer or file; bits at and above `size` are cleared, missing words are 0.
  RunSet(uint32_t size, std::span<const uint64_t> words);
  uint32_t size() const { return size_; }
  bool Has(uint32_t i) const { return i < size_ && (words()[i / 64] >> (i % 64) & 1) != 0; }
  void Add(uint32_t i);
  uint32_t count() const;
  bool full() const { return size_ <= 64 ? word_ == All(size_) : count() == size_; }
  bool empty() const;
  RunSet& operator|=(const RunSet& other);
  RunSet& operator&=(const RunSet& other);
  RunSet Complement() const;
  std::span<const uint64_t> words() const {
    return size_ <= 64 ? std::span(&word_, size_ > 0 ? 1 : 0) : std::span<const uint64_t>(words_);
  }
  friend bool operator==(const RunSet&, const RunSet&) = default;

 private:
  void CutOff();
  static uint64_t All(uint32_t size) { return size == 0 ? 0 : ~uint64_t{0} >> (64 - size); }
  std::span<uint64_t> own_words() {
    return size_ <= 64 ? std::span(&word_, size_ > 0 ? 1 : 0) : std::span(words_);
  }

  uint32_t size_ = 0;
  uint64_t word_ = 0;            // up to 64 lie here, as most sets do
  std::vector<uint64_t> words_;  // of more than that
};

// As bytes, for frames, ledgers and the journal. Decoding fails the reader on a cut that is not valid.
void Encode(const Cut& cut, ByteWriter* out);
Cut DecodeCut(ByteReader* in);

}  // namespace leat::protocol

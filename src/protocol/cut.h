// Cuts: the events of a split and their division into batches.
//
// A cut is either a pure function of the position in the stream or journaled before it is leased, so it is
// identical after any failure. The unit of pushing, applying and recording is a *run* of its batches: one
// batch, or as many as the strategy trains between two pushes (the last run of a cut may have fewer). The
// identity of a run is (cut hash, epoch, partition, begin, index).
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/fields/fields.h"
#include "base/status.h"

namespace leat::fields {
class Reader;
class Writer;
}  // namespace leat::fields

namespace leat::protocol {

// A position in one partition of the stream, ordered by (epoch, offset).
struct Position {
  uint32_t epoch = 0;
  uint64_t offset = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};
LEAT_FIELDS(Position, (epoch), (offset));

// A split that is ready to be leased: events [begin.offset, end) of a partition in one epoch.
struct Cut {
  static constexpr uint32_t kMaxBatches = 1 << 16;
  static constexpr uint32_t kMaxEvents = 1 << 24;
  static constexpr uint32_t kMaxPartitions = 1 << 16;

  uint32_t partition = 0;
  // The end of the preceding cut: begin itself, or, for the first cut of a pass, the end of the previous
  // pass.
  Position after;
  Position begin;
  uint64_t end = 0;
  uint64_t hash = 0;  // covers batch size, run length, shuffle seed, schema, decoder version
  uint32_t batch_size = 1;
  uint64_t shuffle_seed = 0;  // 0: in the order of offsets
  uint32_t run = 1;           // batches per run

  uint32_t events() const { return static_cast<uint32_t>(end - begin.offset); }
  uint32_t batches() const { return (events() + batch_size - 1) / batch_size; }
  uint32_t runs() const { return (batches() + run - 1) / run; }
  // The number of batches of run i, which begins with batch i * run.
  uint32_t BatchesOf(uint32_t i) const { return std::min(run, batches() - i * run); }
  // The maximum number of good records in run i.
  uint64_t EventsOf(uint32_t i) const {
    const uint64_t before = uint64_t{i} * run * batch_size;
    return std::min<uint64_t>(uint64_t{run} * batch_size, events() - before);
  }
  // The position after the cut. Whether another pass follows depends on the next cut's `after`, so a stream
  // can grow and a job can get more epochs after its end was reached.
  Position next() const { return {begin.epoch, end}; }
  // Non-empty, within the limits, with `begin` where `after` allows it. Check every cut from a peer or file.
  bool valid() const;
};
LEAT_FIELDS(Cut, (partition, AtMost(Cut::kMaxPartitions - 1)), (after), (begin), (end), (hash, Fixed),
            (batch_size), (shuffle_seed, Fixed), (run));
Status Check(const Cut& cut);

// The order in which a cut's events are trained: order[k] is the offset of the k-th event after begin. Batch
// i is order[i * batch_size, (i + 1) * batch_size); run i starts with batch i * run. Depends on the cut
// alone.
void TrainingOrder(const Cut& cut, std::vector<uint32_t>* order);

struct CutRules {
  uint64_t hash = 0;
  uint32_t batch_size = 128;
  uint32_t split_batches = 64;  // batches in a full split
  uint64_t shuffle_seed = 1;
  uint32_t run = 1;     // batches per run
  uint32_t epochs = 1;  // passes over a sealed stream
};

// Passes over a partition, in order: each goes over the events [begin, end), and the epochs of consecutive
// passes are consecutive. Events that are added to a stream that was passed over completely have passes of
// their own.
struct PassSpan {
  uint32_t epochs = 1;
  uint64_t begin = 0;
  uint64_t end = UINT64_MAX;  // as far as the partition goes
};
LEAT_FIELDS(PassSpan, (epochs, AtLeast(1)), (begin), (end));
Status Check(const PassSpan& span);
using Passes = std::vector<PassSpan>;  // not empty
// All passes over all events.
inline Passes PassesFrom(uint64_t first, uint32_t epochs) {
  return {{epochs, first, UINT64_MAX}};
}
// The passes of a partition that had `passes`, has been cut up to `at`, and now ends at `end`, where it may
// be sealed, of a job that passes over all events `epochs` times.
Passes Continued(Passes passes, uint32_t epochs, Position at, uint64_t end, bool sealed);

// The events that can be cut after a position.
struct PassRest {
  Position begin;       // in the next pass, if the current one is over
  uint64_t end = 0;     // end of the available events
  bool closed = false;  // the pass ends there
};
// Finds the rest in a partition that currently ends at `end`; none if it is sealed and has no further pass.
std::optional<PassRest> RestAfter(const Passes& passes, Position at, uint64_t end, bool sealed);

// The cut of [begin.offset, end) by the rules.
Cut MakeCut(const CutRules& rules, uint32_t partition, Position after, Position begin, uint64_t end);

// The cut that follows `at` in a partition that currently ends at `end`. Cuts are full splits while there
// are enough events. The rest of a pass over a sealed partition makes a shorter one. With `short_tail`, so do
// the whole batches at the end of a live partition, or its events if they are fewer than a batch. None if
// there is nothing to cut.
std::optional<Cut> NextCut(const CutRules& rules, uint32_t partition, Position at, const Passes& passes,
                           uint64_t end, bool sealed, bool short_tail);

// True if there is no further cut after `at` while the partition is unchanged.
bool Exhausted(const Passes& passes, Position at, uint64_t end, bool sealed);

// Late labels: the labels [begin, end) of the label topic's partition of the same number, with which the
// events of a cut are joined.
struct LabelRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};
LEAT_FIELDS(LabelRange, (begin), (end));
Status Check(const LabelRange& labels);

// Late labels: the events of a partition before offset `events`, from the previous mark's `events` on, are
// joined with labels [labels_begin, labels_end). No label that comes later is for them.
struct LabelMark {
  uint64_t events = 0;
  uint64_t labels_begin = 0;
  uint64_t labels_end = 0;
  // True if a partition may have this mark after `before`.
  bool Follows(const LabelMark& before) const {
    return events > before.events && labels_begin >= before.labels_begin && labels_end >= before.labels_end &&
           labels_begin <= labels_end;
  }
};
LEAT_FIELDS(LabelMark, (events), (labels_begin), (labels_end));

// A set of runs of one cut, by index.
class RunSet {
 public:
  RunSet() = default;
  explicit RunSet(uint32_t size, bool full = false);
  // From a peer's or file's words. Bits from `size` on are cleared, missing words are 0.
  RunSet(uint32_t size, std::span<const uint64_t> words);
  uint32_t size() const { return size_; }
  bool Has(uint32_t i) const { return i < size_ && (words()[i / 64] >> (i % 64) & 1) != 0; }
  void Add(uint32_t i);
  uint32_t count() const;
  bool full() const { return size_ <= 64 ? word_ == All(size_) : count() == size_; }
  bool empty() const {
    return std::ranges::all_of(words(), [](uint64_t word) { return word == 0; });
  }
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
  uint64_t word_ = 0;            // up to 64 runs are stored here, as in most sets
  std::vector<uint64_t> words_;  // more than 64 runs
};

// The rule of a field that is a set of runs of a cut before it in the list: its words, 8 bytes for every 64
// runs. A set of another size is written with the runs that it has of this cut.
struct RunsOf {
  explicit RunsOf(const Cut& cut) : runs(cut.valid() ? cut.runs() : 0) {}
  uint32_t runs;
};
void PutField(const RunSet& set, fields::Writer* out, const RunsOf& rule);
void GetField(RunSet* set, fields::Reader* in, const RunsOf& rule);
constexpr std::string_view FormatOf(const RunSet*) {
  return "runs of the cut, a fixed u64 for every 64";
}
constexpr uint64_t MostBytesOf(const RunSet*) {
  return Cut::kMaxBatches / 64 * 8;
}
// The same set behind a byte 1. A byte 0 alone: there is no set, a RunSet().
struct MaybeRunsOf : RunsOf {
  using RunsOf::RunsOf;
};
void PutField(const RunSet& set, fields::Writer* out, const MaybeRunsOf& rule);
void GetField(RunSet* set, fields::Reader* in, const MaybeRunsOf& rule);
constexpr std::string_view FormatOf(const RunSet*, const MaybeRunsOf&) {
  return "optional runs of the cut, a fixed u64 for every 64";
}
constexpr uint64_t MostBytesOf(const RunSet* type, const MaybeRunsOf&) {
  return 1 + MostBytesOf(type);
}

}  // namespace leat::protocol

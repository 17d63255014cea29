#include "protocol/cut.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/fields/codec.h"
#include "base/rng.h"

namespace leat::protocol {

bool Cut::valid() const {
  if (batch_size == 0 || batch_size > kMaxEvents) return false;
  if (end <= begin.offset || end - begin.offset > kMaxEvents) return false;
  if (batches() > kMaxBatches || run == 0 || run > kMaxBatches) return false;
  return after == begin || (begin.epoch > 0 && after.epoch == begin.epoch - 1);
}

Status Check(const Cut& cut) {
  if (cut.valid()) return {};
  return {Code::kInvalidArgument, "invalid cut: partition " + std::to_string(cut.partition) + " offsets " +
                                      std::to_string(cut.begin.offset) + " to " + std::to_string(cut.end)};
}

Status Check(const PassSpan& span) {
  if (span.begin <= span.end) return {};
  return {Code::kInvalidArgument,
          "a pass begins at " + std::to_string(span.begin) + " and ends at " + std::to_string(span.end)};
}

Status Check(const LabelRange& labels) {
  if (labels.begin <= labels.end) return {};
  return {Code::kInvalidArgument,
          "labels begin at " + std::to_string(labels.begin) + " and end at " + std::to_string(labels.end)};
}

void TrainingOrder(const Cut& cut, std::vector<uint32_t>* order) {
  order->resize(cut.events());
  if (cut.shuffle_seed == 0) {
    for (uint32_t i = 0; i < cut.events(); ++i) (*order)[i] = i;
    return;
  }
  const uint64_t place = Mix(Mix(cut.partition, cut.begin.epoch), cut.begin.offset);
  Permutation(std::span<uint32_t>(*order), Mix(cut.shuffle_seed, place));
}

Cut MakeCut(const CutRules& rules, uint32_t partition, Position after, Position begin, uint64_t end) {
  Cut cut;
  cut.partition = partition;
  cut.after = after;
  cut.begin = begin;
  cut.end = end;
  cut.hash = rules.hash;
  cut.batch_size = std::clamp(rules.batch_size, 1u, Cut::kMaxEvents);
  cut.shuffle_seed = rules.shuffle_seed;
  cut.run = std::clamp(rules.run, 1u, Cut::kMaxBatches);
  return cut;
}

Passes Continued(Passes passes, uint32_t epochs, Position at, uint64_t end, bool sealed) {
  const uint64_t stop = sealed ? end : UINT64_MAX;
  const uint64_t first = passes.front().begin;
  // The first pass goes on over what was added.
  if (passes.size() == 1 && at.epoch == 0) return {{epochs, first, stop}};
  if (passes.back().end == UINT64_MAX) passes.back().end = stop;
  const uint64_t border = passes.back().end;
  if (border == UINT64_MAX) return passes;  // known when it is sealed
  uint32_t made = 0;                        // passes over the events before the border
  for (const PassSpan& span : passes) made += span.begin == first ? span.epochs : 0;
  if (passes.size() == 1) {
    passes.front().epochs = std::max(epochs, at.epoch + 1);
  } else if (epochs > made) {
    passes.push_back({epochs - made, first, border});
  }
  if (end > border) passes.push_back({epochs, border, stop});
  return passes;
}

std::optional<PassRest> RestAfter(const Passes& passes, Position at, uint64_t end, bool sealed) {
  uint64_t before = 0;  // epochs
  size_t i = 0;
  while (i + 1 < passes.size() && at.epoch >= before + passes[i].epochs) before += passes[i++].epochs;
  const PassSpan& now = passes[i];
  const auto rest = [&](Position begin, const PassSpan& span) {
    return PassRest{begin, std::min(span.end, end), sealed || span.end <= end};
  };
  const PassRest current = rest(at, now);
  if (!current.closed || at.offset < current.end) return current;
  const bool again = at.epoch + uint64_t{1} < before + now.epochs;
  const PassSpan* const next = again ? &now : i + 1 < passes.size() ? &passes[i + 1] : nullptr;
  if (next != nullptr && next->begin < std::min(next->end, end))
    return rest({at.epoch + 1, next->begin}, *next);
  if (sealed) return std::nullopt;
  return PassRest{at, std::min(at.offset, end), false};
}

std::optional<Cut> NextCut(const CutRules& rules, uint32_t partition, Position at, const Passes& passes,
                           uint64_t end, bool sealed, bool short_tail) {
  const auto rest = RestAfter(passes, at, end, sealed);
  if (!rest || rest->begin.offset >= rest->end) return std::nullopt;
  const Position begin = rest->begin;
  Cut cut = MakeCut(rules, partition, at, begin, rest->end);

  const uint64_t batches = std::clamp(rules.split_batches, 1u, Cut::kMaxBatches);
  const uint64_t most = std::max<uint64_t>(Cut::kMaxEvents / cut.batch_size, 1);
  const uint64_t full = std::min(batches, most) * cut.batch_size;
  const uint64_t there = rest->end - cut.begin.offset;
  if (there >= full) {
    cut.end = cut.begin.offset + full;
  } else if (rest->closed) {
    cut.end = rest->end;
  } else if (short_tail) {
    const uint64_t whole = there - there % cut.batch_size;
    cut.end = cut.begin.offset + (whole > 0 ? whole : there);
  } else {
    return std::nullopt;
  }
  return cut;
}

bool Exhausted(const Passes& passes, Position at, uint64_t end, bool sealed) {
  return !RestAfter(passes, at, end, sealed);
}

// ---- RunSet

RunSet::RunSet(uint32_t size, bool full) : size_(size) {
  if (size > 64) words_.resize((size + uint64_t{63}) / 64);
  if (!full) return;
  std::ranges::fill(own_words(), ~uint64_t{0});
  CutOff();
}

RunSet::RunSet(uint32_t size, std::span<const uint64_t> from) : RunSet(size) {
  const std::span<uint64_t> to = own_words();
  std::copy_n(from.begin(), std::min(from.size(), to.size()), to.begin());
  CutOff();
}

// Clears the bits from the size on.
void RunSet::CutOff() {
  if (size_ % 64 != 0) own_words().back() &= ~uint64_t{0} >> (64 - size_ % 64);
}

void RunSet::Add(uint32_t i) {
  LEAT_CHECK(i < size_);
  own_words()[i / 64] |= uint64_t{1} << (i % 64);
}

uint32_t RunSet::count() const {
  uint32_t n = 0;
  for (uint64_t word : words()) n += static_cast<uint32_t>(std::popcount(word));
  return n;
}

RunSet& RunSet::operator|=(const RunSet& other) {
  LEAT_CHECK(size_ == other.size_);
  const auto mine = own_words();
  for (size_t i = 0; i < mine.size(); ++i) mine[i] |= other.words()[i];
  return *this;
}

RunSet& RunSet::operator&=(const RunSet& other) {
  LEAT_CHECK(size_ == other.size_);
  const auto mine = own_words();
  for (size_t i = 0; i < mine.size(); ++i) mine[i] &= other.words()[i];
  return *this;
}

RunSet RunSet::Complement() const {
  RunSet rest(size_, true);
  const auto left = rest.own_words();
  for (size_t i = 0; i < left.size(); ++i) left[i] &= ~words()[i];
  return rest;
}

// ---- encoding

void PutField(const RunSet& set, fields::Writer* out, const RunsOf& rule) {
  const auto put = [out](const RunSet& fitting) {
    for (const uint64_t word : fitting.words()) out->bytes()->Put(word);
  };
  set.size() == rule.runs ? put(set) : put(RunSet(rule.runs, set.words()));
}

void GetField(RunSet* set, fields::Reader* in, const RunsOf& rule) {
  std::vector<uint64_t> words((rule.runs + uint64_t{63}) / 64);  // at most Cut::kMaxBatches / 64
  for (uint64_t& word : words) word = in->bytes()->Get<uint64_t>();
  *set = RunSet(rule.runs, words);
  if (!std::ranges::equal(set->words(), words)) in->Fail("has a run past the end of the cut");
}

void PutField(const RunSet& set, fields::Writer* out, const MaybeRunsOf& rule) {
  const bool there = set.size() > 0;
  out->Put(there);
  if (there) PutField(set, out, static_cast<const RunsOf&>(rule));
}

void GetField(RunSet* set, fields::Reader* in, const MaybeRunsOf& rule) {
  bool there = false;
  in->Get(&there);
  *set = {};
  if (there && in->ok()) GetField(set, in, static_cast<const RunsOf&>(rule));
}

}  // namespace leat::protocol

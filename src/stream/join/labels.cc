#include "stream/join/labels.h"

#include <functional>
#include <limits>
#include <utility>

#include "base/check.h"

namespace leat::stream {
namespace {

// A node of the map, with its place in the table.
constexpr uint64_t kChainBytes = 80;
constexpr uint64_t kLongEntryBytes = 32;  // an entry of a long chain, besides
constexpr uint64_t kShortChain = 32;      // entries

constexpr int64_t kStepsPerWindow = 32;
constexpr uint64_t kMostStepEvents = 1 << 20;
constexpr size_t kSlots = 4;  // whose earliest events begin the labels
constexpr int64_t kSlotsAtFirst = kStepsPerWindow / static_cast<int64_t>(kSlots);
constexpr uint64_t kReadAtOnce = 4096;
constexpr int64_t kSamplesPerWindow = 64;
constexpr size_t kMostSamples = 4096;
constexpr int kSeenPerIdle = 16;
constexpr int64_t kLongAgo = std::numeric_limits<int64_t>::min();

}  // namespace

uint64_t LabelIndex::bytes() const {
  return data_bytes_ + entries_.size() * sizeof(Entry) + chains_.size() * kChainBytes +
         long_entries_ * kLongEntryBytes;
}

void LabelIndex::Restart(uint64_t at) {
  blocks_.clear();
  entries_.clear();
  chains_.clear();
  first_ = 0;
  data_bytes_ = 0;
  long_entries_ = 0;
  end_ = at;
}

void LabelIndex::Append(const RecordBatch& labels, size_t key, size_t time) {
  LEAT_CHECK(labels.first_offset == end_);
  if (labels.size() == 0) return;
  // Empty for those that are no labels; absent records are among them.
  const auto key_of = [&](size_t i) -> std::optional<ByteView> {
    if (labels[i].empty() || !TimeOf(labels.Value(time, i))) return std::nullopt;
    return labels.Value(key, i);
  };
  Block block{.begin = end_, .entries = 0, .data = {}};
  size_t size = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (const auto found = key_of(i)) size += found->size() + labels[i].size();
  }
  block.data.reserve(size);  // entries point into it
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto found = key_of(i);
    if (!found) continue;
    const ByteView value = labels[i];
    const size_t at = block.data.size();
    block.data.insert(block.data.end(), found->begin(), found->end());
    block.data.insert(block.data.end(), value.begin(), value.end());
    const uint64_t number = first_ + entries_.size();
    entries_.push_back({.offset = end_ + i,
                        .time = *TimeOf(labels.Value(time, i)),
                        .hash = Checksum(*found),
                        .next = kNone,
                        .key = block.data.data() + at,
                        .key_size = static_cast<uint32_t>(found->size()),
                        .value_size = static_cast<uint32_t>(value.size())});
    Add(number, &chains_[entries_.back().hash]);
    ++block.entries;
  }
  end_ += labels.size();
  data_bytes_ += block.data.size();
  blocks_.push_back(std::move(block));
}

void LabelIndex::Add(uint64_t number, Chain* chain) {
  if (chain->first == kNone) {
    chain->first = number;
  } else {
    entries_[chain->last - first_].next = number;
  }
  chain->last = number;
  ++chain->size;
  const auto add = [&](uint64_t entry) {
    chain->more->numbers.push_back(entry);
    chain->more->times.Append(At(entry).time);
    ++long_entries_;
  };
  if (chain->more != nullptr) {
    add(number);
  } else if (chain->size > kShortChain) {
    chain->more = std::make_unique<LongChain>();
    for (uint64_t entry = chain->first; entry != kNone; entry = At(entry).next) add(entry);
  }
}

// The oldest entry of a chain is its first.
void LabelIndex::DropFirst() {
  const Entry& entry = entries_.front();
  const auto found = chains_.find(entry.hash);
  Chain& chain = found->second;
  if (chain.more != nullptr) {
    chain.more->numbers.pop_front();
    chain.more->times.DropFirst();
    --long_entries_;
  }
  chain.first = entry.next;
  if (--chain.size == 0) chains_.erase(found);
  entries_.pop_front();
  ++first_;
}

void LabelIndex::DropBefore(uint64_t offset) {
  LEAT_CHECK(begin() <= offset && offset <= end_);
  while (!blocks_.empty() && (blocks_.size() > 1 ? blocks_[1].begin : end_) <= offset) {
    for (size_t i = 0; i < blocks_.front().entries; ++i) DropFirst();
    data_bytes_ -= blocks_.front().data.size();
    blocks_.pop_front();
  }
}

std::optional<LabelIndex::Label> LabelIndex::Find(ByteView key, int64_t event_ms, uint64_t begin,
                                                  uint64_t end) const {
  const auto found = chains_.find(Checksum(key));
  if (found == chains_.end()) return std::nullopt;
  const Chain& chain = found->second;
  // Without overflow, whatever the times are.
  constexpr int64_t kLatest = std::numeric_limits<int64_t>::max();
  const int64_t latest = event_ms > kLatest - window_ms_ ? kLatest : event_ms + window_ms_;
  const auto has_key = [&key](const Entry& entry) {
    return std::ranges::equal(ByteView(entry.key, entry.key_size), key);
  };
  const auto label = [end](const Entry& entry) -> std::optional<Label> {
    if (entry.offset >= end) return std::nullopt;
    return Label{entry.offset, ByteView(entry.key + entry.key_size, entry.value_size)};
  };
  if (chain.more == nullptr) {
    for (uint64_t number = chain.first; number != kNone; number = At(number).next) {
      ++steps_;
      const Entry& entry = At(number);
      if (entry.offset >= begin && entry.time >= event_ms && entry.time <= latest && has_key(entry))
        return label(entry);
    }
    return std::nullopt;
  }
  const auto& [numbers, times] = *chain.more;
  const auto from = std::ranges::lower_bound(numbers, begin, std::less(),
                                             [this](uint64_t number) { return At(number).offset; });
  for (uint64_t at = times.begin() + static_cast<uint64_t>(from - numbers.begin());; ++at) {
    at = times.Find(at, event_ms, latest, &steps_);
    if (at == times.end()) return std::nullopt;
    const Entry& entry = At(numbers[at - times.begin()]);
    if (has_key(entry)) return label(entry);
  }
}

void TimeSequence::Append(int64_t time) {
  levels_[0].push_back({time, time});
  for (size_t level = 1; levels_[level - 1].size() > 1; ++level) {
    if (level == levels_.size()) levels_.push_back({levels_[level - 1].front()});
    auto& ranges = levels_[level];
    if (ranges.size() << (kBits * level) < levels_[0].size()) {
      ranges.push_back({time, time});
    } else {
      ranges.back() = {std::min(ranges.back().min, time), std::max(ranges.back().max, time)};
    }
  }
}

void TimeSequence::DropFirst() {
  ++begin_;
  if (2 * (begin_ - base_) < levels_[0].size()) return;
  const auto times = std::exchange(levels_, std::vector<std::vector<Range>>(1))[0];
  const uint64_t dropped = begin_ - std::exchange(base_, begin_);
  for (size_t i = dropped; i < times.size(); ++i) Append(times[i].min);
}

uint64_t TimeSequence::Find(uint64_t from, int64_t low, int64_t high, uint64_t* steps) const {
  size_t level = 0;
  for (uint64_t at = from - base_; at < levels_[0].size();) {
    ++*steps;
    const Range& range = levels_[level][at >> (kBits * level)];
    if (range.min <= high && range.max >= low) {
      if (level == 0) return base_ + at;
      --level;
      continue;
    }
    at = ((at >> (kBits * level)) + 1) << (kBits * level);
    while (level + 1 < levels_.size() && at % (uint64_t{1} << (kBits * (level + 1))) == 0) ++level;
  }
  return end();
}

LabelSchedule::LabelSchedule(const Options& options, const LabelMark& last)
    : options_(options), last_(last), next_event_(last.events), most_label_(kLongAgo) {
  last_.labels_begin = std::min(last.labels_begin, last.labels_end);
  // Without labels so far, the first event says where they begin.
  if (last_.labels_end == 0) return;
  OnLabel(last_.labels_begin);
  slots_ = {{kLongAgo, kLongAgo}};  // the events before the mark are not known
}

void LabelSchedule::OnRanges(Time now, const PartitionRange& events, const PartitionRange& labels) {
  if (!known_ || labels.end != labels_.end) labels_grew_ = now;
  events_ = events;
  labels_ = labels;
  known_ = true;
  // Records that retention has removed are not waited for.
  if (next_event_ < events.begin) {
    next_event_ = events.begin;
    if (!steps_.empty()) steps_.back().end = events.begin;
  }
  if (placed_) next_label_ = std::max(next_label_, std::min(labels.begin, labels.end));
  const bool more = seen_.empty() ||
                    (events.end != seen_.back().end && now - seen_.back().at >= options_.idle / kSeenPerIdle);
  if (more) seen_.push_back({now, events.end});
  // Only the last one that is long enough ago counts.
  while (seen_.size() > 1 && now - seen_[1].at >= options_.idle) seen_.pop_front();
}

LabelSchedule::Next LabelSchedule::Advance(Time now) {
  if (!known_) return Wait{};
  const bool whole = steps_.size() > 1;  // the first of them
  if (!whole && next_event_ < events_.end && now >= events_held_until_)
    return ReadEvents{next_event_, std::min(events_.end, next_event_ + kReadAtOnce)};
  if (steps_.empty()) return Wait{};
  const Step& step = steps_.front();
  if (!step.timed) return Emit(step.end, next_label_);
  if (!placed_) return FindLabel{FirstLabelTime(step)};
  if (PassTo(step.most + options_.window_ms)) return Emit(step.end, next_label_);
  if (next_label_ < labels_.end && now >= labels_held_until_)
    return ReadLabels{next_label_, std::min(labels_.end, next_label_ + kReadAtOnce)};
  const uint64_t all = std::max(next_label_, labels_.end);  // also those that are held
  if (labels_.sealed) return Emit(step.end, all);
  const uint64_t waited = std::min(step.end, WaitedFor(now));
  if (waited > last_.events) return Emit(waited, all);
  return Wait{};
}

// Whether a span of time, of a step or a slot, that begins with an event at `base` takes one at `time`.
bool LabelSchedule::Spans(int64_t base, int64_t time) const {
  return time <= base + std::max<int64_t>(1, options_.window_ms / kStepsPerWindow) &&
         time >= base - options_.window_ms;
}

// For the first step of all. An event of long ago does not make the labels begin with it.
int64_t LabelSchedule::FirstLabelTime(const Step& step) const {
  return std::max(step.least, step.most - options_.window_ms) - options_.window_ms / kSlotsAtFirst;
}

void LabelSchedule::OnEvents(Times times) {
  for (const auto& time : times) AddEvent(time);
}

void LabelSchedule::AddEvent(std::optional<int64_t> time) {
  bool fits = !steps_.empty() && steps_.back().events < kMostStepEvents;
  if (fits && time && steps_.back().timed) fits = Spans(steps_.back().base, *time);
  if (!fits) steps_.emplace_back();
  Step& step = steps_.back();
  ++step.events;
  step.end = ++next_event_;
  if (!time) return;
  if (!step.timed) step = {step.events, step.end, true, *time, *time, *time};
  step.least = std::min(step.least, *time);
  step.most = std::max(step.most, *time);
}

void LabelSchedule::OnLabel(uint64_t offset) {
  placed_ = true;
  // It may be one that is not committed yet, or has come since.
  next_label_ = known_ ? std::min(offset, labels_.end) : offset;
  samples_.assign(1, {next_label_, kLongAgo});
}

void LabelSchedule::OnLabels(Times times) {
  label_times_begin_ = next_label_;
  label_times_.assign(times.begin(), times.end());
}

bool LabelSchedule::PassTo(int64_t time) {
  const uint64_t known_end = label_times_begin_ + label_times_.size();
  for (; label_times_begin_ <= next_label_ && next_label_ < known_end; ++next_label_) {
    const auto label = label_times_[next_label_ - label_times_begin_];
    if (label && *label > time) return true;
    TakeLabel(label);
  }
  return false;
}

void LabelSchedule::TakeLabel(std::optional<int64_t> time) {
  if (!time || *time <= most_label_) return;
  const int64_t apart = std::max<int64_t>(1, options_.window_ms / kSamplesPerWindow);
  if (samples_.size() < kMostSamples && *time >= samples_.back().most + apart) {
    // After a pause, those before it are told apart: retention may have removed them.
    if (most_label_ > samples_.back().most) samples_.push_back({next_label_, most_label_});
    samples_.push_back({next_label_ + 1, *time});
  }
  most_label_ = *time;
}

// Where the events end that were there while the labels were idle.
uint64_t LabelSchedule::WaitedFor(Time now) const {
  const bool idle = now - labels_grew_ >= options_.idle && now - seen_.front().at >= options_.idle;
  return idle ? seen_.front().end : 0;
}

// The events of the first step before `end` with the labels before `labels_end`.
LabelMark LabelSchedule::Emit(uint64_t end, uint64_t labels_end) {
  const Step step = steps_.front();
  if (end < step.end) {
    steps_.front().events = step.end - end;
  } else {
    steps_.pop_front();
  }
  LabelMark mark{end, last_.labels_begin, last_.labels_end};
  if (step.timed) {
    if (slots_.empty()) {
      slots_.push_back({step.base, FirstLabelTime(step)});
    } else if (slots_.back().base != kLongAgo && Spans(slots_.back().base, step.base)) {
      slots_.back().least = std::min(slots_.back().least, step.least);
    } else {
      slots_.push_back({step.base, step.least});
    }
    if (slots_.size() > kSlots) slots_.pop_front();
    const int64_t least = std::ranges::min(slots_, {}, &Slot::least).least;
    if (most_label_ < least) samples_.assign(1, {next_label_, most_label_});
    while (samples_.size() > 1 && samples_[1].most < least) samples_.pop_front();
    mark.labels_end = std::max(last_.labels_end, labels_end);
    mark.labels_begin = std::clamp(samples_.front().offset, last_.labels_begin, mark.labels_end);
  }
  LEAT_CHECK(mark.events > last_.events && mark.labels_begin <= mark.labels_end);
  return last_ = mark;
}

}  // namespace leat::stream

#include "stream/join/label_index.h"

#include <algorithm>
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

}  // namespace leat::stream

#include "stream/join/label_index.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "stream/join/timed_source.h"

namespace leat::stream {
namespace {

// A node of the map, with its place in the table.
constexpr uint64_t kChainBytes = 64;

}  // namespace

uint64_t LabelIndex::bytes() const {
  return data_bytes_ + entries_.size() * sizeof(Entry) + chains_.size() * kChainBytes;
}

void LabelIndex::Restart(uint64_t at) {
  blocks_.clear();
  entries_.clear();
  chains_.clear();
  first_ = 0;
  data_bytes_ = 0;
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
    Chain& chain = chains_[entries_.back().hash];
    if (chain.first == kNone) {
      chain.first = number;
    } else {
      entries_[chain.last - first_].next = number;
    }
    chain.last = number;
    ++block.entries;
  }
  end_ += labels.size();
  data_bytes_ += block.data.size();
  blocks_.push_back(std::move(block));
}

void LabelIndex::DropBefore(uint64_t offset) {
  LEAT_CHECK(begin() <= offset && offset <= end_);
  while (!blocks_.empty() && (blocks_.size() > 1 ? blocks_[1].begin : end_) <= offset) {
    // The oldest entry of a chain is its first.
    for (size_t i = 0; i < blocks_.front().entries; ++i, ++first_) {
      const Entry& entry = entries_.front();
      if (entry.next == kNone) {
        chains_.erase(entry.hash);
      } else {
        chains_[entry.hash].first = entry.next;
      }
      entries_.pop_front();
    }
    data_bytes_ -= blocks_.front().data.size();
    blocks_.pop_front();
  }
}

std::optional<LabelIndex::Label> LabelIndex::Find(ByteView key, int64_t event_ms, uint64_t begin,
                                                  uint64_t end) const {
  const auto chain = chains_.find(Checksum(key));
  if (chain == chains_.end()) return std::nullopt;
  for (uint64_t number = chain->second.first; number != kNone; number = At(number).next) {
    const Entry& entry = At(number);
    if (entry.offset >= end) return std::nullopt;
    if (entry.offset < begin || entry.time < event_ms) continue;
    // Without overflow, whatever the times are.
    if (static_cast<uint64_t>(entry.time) - static_cast<uint64_t>(event_ms) >
        static_cast<uint64_t>(window_ms_))
      continue;
    if (!std::ranges::equal(ByteView(entry.key, entry.key_size), key)) continue;
    return Label{entry.offset, ByteView(entry.key + entry.key_size, entry.value_size)};
  }
  return std::nullopt;
}

}  // namespace leat::stream

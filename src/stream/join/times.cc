#include "stream/join/times.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace leat::stream {

Status TimedSource::ReadTimes(uint32_t partition, uint64_t begin, uint64_t end, RecordTimes* times) {
  RecordBatch batch;
  batch.wanted = {{Attribute::Kind::kTimestamp, ""}};
  LEAT_RETURN_IF_ERROR(Read(partition, begin, end, &batch));
  *times = TimesOf(batch, 0);
  return {};
}

std::optional<int64_t> TimeOf(std::optional<ByteView> timestamp) {
  int64_t ms = 0;
  if (!timestamp || timestamp->size() != sizeof(ms)) return std::nullopt;
  std::memcpy(&ms, timestamp->data(), sizeof(ms));
  return ms;
}

RecordTimes TimesOf(const RecordBatch& batch, size_t attribute) {
  RecordTimes times;
  times.reserve(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) times.push_back(TimeOf(batch.Value(attribute, i)));
  return times;
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

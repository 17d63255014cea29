#include "protocol/push/slice_versions.h"

#include <tuple>

namespace leat::protocol {

SliceVersions::SliceVersions(size_t slices, bool stepped) : incarnations_(slices) {
  known_.reserve(slices);
  index_of_.reserve(slices);
  for (uint32_t i = 0; i < slices; ++i) {
    known_.push_back({SliceId(i), {}, 0});
    index_of_.push_back(i);
  }
  if (stepped) seen_.resize(slices);
}

void SliceVersions::Arrange(const View& view, std::vector<uint32_t> index_of) {
  const auto before = std::tuple(known_, seen_);
  const auto& [known_before, seen_before] = before;
  for (uint32_t i = 0; i < known_.size(); ++i) {
    const uint32_t from = index_of_[i], to = index_of[i];
    known_[to] = known_before[from];
    if (!seen_.empty()) seen_[to] = seen_before[from];
    incarnations_[to] = i < view.slices.size() ? view.slices[i].incarnation : Incarnation();
  }
  index_of_ = std::move(index_of);
  range_.reset();
}

std::vector<SliceRef> SliceVersions::KnownBySlice() const {
  std::vector<SliceRef> known;
  known.reserve(known_.size());
  for (const uint32_t index : index_of_) known.push_back(known_[index]);
  return known;
}

bool SliceVersions::LacksAny() const {
  for (uint32_t index = 0; index < known_.size(); ++index) {
    if (Lacks(index)) return true;
  }
  return false;
}

uint64_t SliceVersions::LowestKnown() const {
  uint64_t lowest = known_.empty() ? 0 : known_[0].version;
  for (const SliceRef& slice : known_) lowest = std::min(lowest, slice.version);
  return lowest;
}

const std::pair<uint64_t, uint64_t>& SliceVersions::SeenRange() {
  if (!range_) {
    auto& [lowest, highest] = range_.emplace(UINT64_MAX, 0);
    for (uint32_t index = 0; index < seen_.size(); ++index) {
      lowest = std::min(lowest, SeenAt(index));
      highest = std::max(highest, SeenAt(index));
    }
  }
  return *range_;
}

}  // namespace leat::protocol

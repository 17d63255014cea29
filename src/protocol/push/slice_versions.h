// A worker's knowledge of the job's slices: which of their values are in its memory, and, in stepped
// strategies, which versions their servers have reported.
//
// Slices have an index: by server, then id, so that those of one reply are adjacent. Slices without a server
// come last. Invariants: `known` holds each slice once, at its index; while lacking() is false, all values in
// memory are of their slices' current incarnations. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/messages_control.h"
#include "protocol/messages_data.h"

namespace leat::protocol {

class SliceVersions {
 public:
  // A version of one incarnation of a slice.
  struct Seen {
    Incarnation incarnation;
    uint64_t version = 0;
  };

  SliceVersions(size_t slices, bool stepped);

  size_t size() const { return known_.size(); }
  uint32_t IndexOf(SliceId slice) const { return index_of_[slice.value]; }
  // The slices' new indices, by slice, and their incarnations as of the view that has caused them.
  void Arrange(const View& view, std::vector<uint32_t> index_of);
  Incarnation incarnation(uint32_t index) const { return incarnations_[index]; }  // as of the view

  // ---- values in memory
  // By index: the slice, and which of its values are in memory.
  const std::vector<SliceRef>& known() const { return known_; }
  std::vector<SliceRef> KnownBySlice() const;
  bool Lacks(uint32_t index) const { return known_[index].incarnation != incarnations_[index]; }
  bool LacksAny() const;
  uint64_t LowestKnown() const;
  // Some slices may lack values of their current incarnation.
  bool lacking() const { return lacking_; }
  void SetLacking(bool lacking) { lacking_ = lacking; }
  void Take(uint32_t index, const SliceRef& values) { known_[index] = values; }
  void Forget(uint32_t index) {
    known_[index] = {known_[index].slice, {}, 0};
    lacking_ = true;
  }
  void ForgetAll() {
    for (uint32_t index = 0; index < known_.size(); ++index) Forget(index);
  }

  // ---- stepped: versions on the servers
  bool stepped() const { return !seen_.empty(); }
  void See(uint32_t index, Incarnation incarnation, uint64_t version) {
    Seen& seen = seen_[index];
    if (seen.incarnation != incarnation) seen = {incarnation, 0};
    seen.version = std::max(seen.version, version);
    range_.reset();
  }
  const std::vector<Seen>& seen() const { return seen_; }
  // The newest version reported of the current incarnation; 0: none.
  uint64_t SeenAt(uint32_t index) const {
    return seen_[index].incarnation == incarnations_[index] ? seen_[index].version : 0;
  }
  uint64_t SeenOf(SliceId slice) const { return SeenAt(IndexOf(slice)); }
  // The lowest and the highest of them.
  const std::pair<uint64_t, uint64_t>& SeenRange();
  // Every slice has completed the steps before this one, as a server's answer has shown.
  uint64_t settled() const { return settled_; }
  void Settle(uint64_t step) { settled_ = std::max(settled_, step); }
  // The slices are restored: their steps are repeated.
  void Unsettle() { settled_ = 0; }

 private:
  std::vector<SliceRef> known_;
  std::vector<Seen> seen_;          // stepped, by index: the newest version reported by its server
  std::vector<uint32_t> index_of_;  // by slice
  uint64_t settled_ = 0;
  bool lacking_ = true;
  std::vector<Incarnation> incarnations_;               // by index
  std::optional<std::pair<uint64_t, uint64_t>> range_;  // SeenRange, if it has been computed
};

}  // namespace leat::protocol

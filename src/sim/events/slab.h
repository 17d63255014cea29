// Memory of what comes and goes all the time, each at a place of its own, named by a number, as long as it is
// there. What was left last is taken first: it is in the cache yet. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace leat::sim {

template <class T>
class Slab {
 public:
  // One that is free, with whatever its last use has left in it. Others stay where they are.
  uint32_t Take() {
    if (free_.empty()) {
      if (places_ == blocks_.size() * kBlock) blocks_.push_back(std::make_unique<T[]>(kBlock));
      return places_++;
    }
    const uint32_t place = free_.back();
    free_.pop_back();
    return place;
  }
  void Leave(uint32_t place) { free_.push_back(place); }
  T& operator[](uint32_t place) { return blocks_[place / kBlock][place % kBlock]; }

 private:
  static constexpr size_t kBlock = 256;
  std::vector<std::unique_ptr<T[]>> blocks_;
  uint32_t places_ = 0;
  std::vector<uint32_t> free_;
};

}  // namespace leat::sim

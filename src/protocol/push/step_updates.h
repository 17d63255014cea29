// Arithmetic of completed steps, and its memory: buffers of sums and early gradients are used again.
//
// Updates run at once, or are collected and then run together, on several threads if that is worth it
// (ServerConfig::run_parts). Results are the same.
//
// Invariants: only the slice, its steps and its update refer to the memory of an update; a slice has at most
// one update that has not run (`*updating`). Not thread-safe, but the updates themselves are independent.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compute/tensor/buffer.h"
#include "protocol/slices/server/job_slices.h"

namespace leat::protocol {

inline std::span<float> FloatsIn(const Buffer& buffer, uint64_t elements) {
  return {reinterpret_cast<float*>(buffer.data()), elements};
}

// The arithmetic of a completed step at one slice, prepared so that it can run on another thread.
struct StepUpdate {
  struct Addend {
    std::span<const float> numbers;
    float weight = 0;
    Buffer memory;  // memory of the numbers; empty: the receive buffer
  };
  bool* updating = nullptr;  // the slice's: the update is collected
  const SliceRule* rule = nullptr;
  uint64_t elements = 0, version = 0;  // the version that results
  float scale = 0;
  float rate = 1;
  Buffer sum;                   // empty: nothing was added yet, and chunks suffice
  bool has_sum = false;         // the sum has a value
  std::vector<Addend> addends;  // not in the sum, in lane order
  Buffer from, to;              // memory of the slice: equal if updated in place
  Buffer previous;              // in place: receives the previous values
};

class StepUpdates {
 public:
  explicit StepUpdates(const JobSlices& job) : job_(job) {}

  // Memory of that size, perhaps used before.
  Buffer TakeBuffer(uint64_t elements) { return TakeMemory(elements * sizeof(float)); }
  Buffer TakeMemory(uint64_t bytes);
  // Unless somebody else refers to it.
  void GiveBuffer(Buffer buffer);

  // Collects updates, or runs each at once. Returns what was set before.
  bool Defer(bool defer) { return std::exchange(deferring_, defer); }
  void Add(StepUpdate&& update);
  void RunAll();
  void RunDeferred() {
    deferring_ = false;
    if (!updates_.empty()) RunAll();
  }

 private:
  void Give(StepUpdate* update);  // its memory, to be used again

  const JobSlices& job_;
  std::unordered_map<uint64_t, std::vector<Buffer>> spare_;  // by bytes
  bool deferring_ = false;
  std::vector<StepUpdate> updates_;
};

}  // namespace leat::protocol

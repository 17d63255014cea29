// A worker's memory for parameters and gradients, laid out by variable, with the place of every slice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optim/norm.h"
#include "protocol/slices.h"
#include "tensor/buffer.h"

namespace leat::protocol {

// What is still to be added up to gradients: each laid out as all of them are (Parameters::all_gradients), in
// the order in which they are added. None: the parameters' gradients are what they are.
using GradientTerms = std::vector<std::span<const float>>;

// Not thread-safe.
class Parameters {
 public:
  // `allocate`: for the gradients, which are sent; null: ordinary memory.
  explicit Parameters(const SliceTable& table, Allocate allocate = {});

  const SliceTable& table() const { return table_; }
  std::span<float> values(size_t variable) const { return Whole(values_, variable); }
  std::span<float> gradients(size_t variable) const { return Whole(gradients_, variable); }
  std::span<float> values(SliceId slice) const { return Part(values_, slice); }
  std::span<float> gradients(SliceId slice) const { return Part(gradients_, slice); }
  // All variables one behind the other, with what lies between them so that each begins on a cache line:
  // zeros, as long as nobody writes there.
  std::span<float> all_values() const { return All(values_); }
  std::span<float> all_gradients() const { return All(gradients_); }
  // The gradients' memory, for who sends it: as long as it is held, somebody may read it.
  Buffer gradient_buffer() const { return gradients_; }
  // Before gradients are written: where somebody still holds the memory of those before, they get another,
  // which is that of the ones before them when nobody holds that any more.
  // True then: spans of them are outdated.
  bool AcquireGradientBuffer();
  // The largest magnitude among a variable's gradients: infinity where one is infinite or not a number.
  float LargestGradient(size_t variable) const;
  // False when any gradient, or sum of such terms, is infinite or not a number.
  bool GradientsFinite(const GradientTerms& terms = {}) const;
  // The same, and clips the gradients where all are finite. What moves a statistic is no gradient: it neither
  // counts for the norm nor is clipped.
  bool Clip(const optim::Clipping& clipping);

 private:
  std::span<float> All(const Buffer& buffer) const {
    return {reinterpret_cast<float*>(buffer.data()), starts_.back()};
  }
  std::span<float> Whole(const Buffer& buffer, size_t variable) const;
  std::span<float> Part(const Buffer& buffer, SliceId slice) const;

  SliceTable table_;
  Allocate allocate_;
  std::vector<size_t> starts_;  // in floats, of each variable
  Buffer values_;
  Buffer gradients_;
  Buffer former_;  // of gradients before these
};

}  // namespace leat::protocol

// A worker's memory for parameters and gradients, laid out by variable, with the location of every slice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/optim/norm.h"
#include "compute/tensor/buffer.h"
#include "protocol/messages_data.h"
#include "protocol/slices.h"

namespace leat::protocol {

// Terms whose sum is the gradient. Each is laid out like Parameters::all_gradients; they are added in this
// order. Empty: the parameters' gradients are final.
using GradientTerms = std::vector<std::span<const float>>;

// The versions of a subscriber's parameters (subscribers/subscriber.h).
struct SubscribedValues {
  explicit SubscribedValues(size_t count = 0);
  void Forget();  // none is known

  uint64_t term = 0;             // a term of the job's run that the values are from
  std::vector<SliceRef> slices;  // by slice id; incarnation 0: unknown values, or none
};

// The values alone are wanted, by those who do not train them.
struct WithoutGradients {};

// Not thread-safe.
class Parameters {
 public:
  // `allocate` provides the gradients' memory, which is sent; null: ordinary memory.
  explicit Parameters(const SliceTable& table, Allocate allocate = {});

  Parameters(const SliceTable& table, WithoutGradients);

  const SliceTable& table() const { return table_; }
  SubscribedValues& held() { return held_; }
  const SubscribedValues& held() const { return held_; }
  std::span<float> values(size_t variable) const { return Whole(values_, variable); }
  std::span<float> gradients(size_t variable) const { return Whole(gradients_, variable); }
  std::span<float> values(SliceId slice) const { return Part(values_, slice); }
  std::span<float> gradients(SliceId slice) const { return Part(gradients_, slice); }
  // All variables one after the other, each aligned to a cache line, with zeros in the gaps.
  std::span<float> all_values() const { return All(values_); }
  std::span<float> all_gradients() const { return All(gradients_); }
  // The gradients' memory, for senders: while a reference is held, somebody may read it.
  Buffer gradient_buffer() const { return gradients_; }
  // Call before writing gradients. If somebody still holds their buffer, switches to another one: the
  // previous buffer if nobody holds it, else a new one.
  // Returns true if it switched: spans of gradients are then outdated.
  bool AcquireGradientBuffer();
  // The largest magnitude of a variable's gradients; infinity if one is infinite or NaN.
  float LargestGradient(size_t variable) const;
  // False if any gradient, or sum of the terms, is infinite or NaN. Moments are words, not gradients: they do
  // not count, and terms have none.
  bool GradientsFinite(const GradientTerms& terms = {}) const;
  // As GradientsFinite, and clips the gradients if all are finite. Updates of statistics, and moments, are
  // excluded from the norm and from clipping.
  bool Clip(const optim::Clipping& clipping);

 private:
  std::span<float> All(const Buffer& buffer) const {
    return {reinterpret_cast<float*>(buffer.data()), starts_.back()};
  }
  std::span<float> Whole(const Buffer& buffer, size_t variable) const;
  std::span<float> Part(const Buffer& buffer, SliceId slice) const;

  void LayOut();

  SliceTable table_;
  SubscribedValues held_;
  Allocate allocate_;
  std::vector<size_t> starts_;  // in floats, by variable
  Buffer values_;
  Buffer gradients_;
  Buffer former_;  // previous gradients
};

}  // namespace leat::protocol

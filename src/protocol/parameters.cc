#include "protocol/parameters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "base/multiversion.h"
#include "compute/optim/mean.h"

namespace leat::protocol {
namespace {

// Without their signs, floats are ordered like integers, which vectorizes. NaN comes after infinity.
LEAT_MULTIVERSION float Largest(const float* x, size_t n) {
  constexpr uint32_t kMagnitude = 0x7fffffffu, kInfinity = 0x7f800000u;
  uint32_t largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & kMagnitude;
    largest = magnitude > largest ? magnitude : largest;
  }
  return std::bit_cast<float>(largest > kInfinity ? kInfinity : largest);
}

}  // namespace

SubscribedValues::SubscribedValues(size_t count) : slices(count) {
  Forget();
}

void SubscribedValues::Forget() {
  for (size_t i = 0; i < slices.size(); ++i) slices[i] = {SliceId(static_cast<uint32_t>(i)), {}, 0};
}

Parameters::Parameters(const SliceTable& table, Allocate allocate)
    : table_(table), allocate_(std::move(allocate)) {
  if (!allocate_) allocate_ = [](size_t bytes) { return Buffer(bytes); };
  LayOut();
  gradients_ = allocate_(values_.size());
}

Parameters::Parameters(const SliceTable& table, WithoutGradients) : table_(table) {
  LayOut();
}

void Parameters::LayOut() {
  constexpr size_t kFloatsPerLine = Buffer::kAlignment / sizeof(float);
  size_t total = 0;
  for (const auto& variable : table_.variables) {
    starts_.push_back(total);
    const auto elements = static_cast<size_t>(variable.shape.elements());
    total += (elements + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
  }
  starts_.push_back(total);
  values_ = Buffer(total * sizeof(float));
  held_ = SubscribedValues(table_.slices.size());
}

bool Parameters::AcquireGradientBuffer() {
  if (!gradients_.shared()) return false;
  std::swap(gradients_, former_);
  if (gradients_.size() == 0 || gradients_.shared()) gradients_ = allocate_(former_.size());
  return true;
}

float Parameters::LargestGradient(size_t variable) const {
  const auto gradient = gradients(variable);
  return Largest(gradient.data(), gradient.size());
}

bool Parameters::GradientsFinite(const GradientTerms& terms) const {
  if (terms.empty()) {
    for (size_t v = 0; v < table_.variables.size(); ++v) {
      if (table_.variables[v].role == optim::VariableRole::kMoments) continue;
      if (!std::isfinite(LargestGradient(v))) return false;
    }
    return true;
  }
  const size_t all = all_gradients().size();
  std::array<float, 4096> chunk;
  for (size_t begin = 0; begin < all; begin += chunk.size()) {
    const auto sum = std::span(chunk).first(std::min(chunk.size(), all - begin));
    optim::SetSum(sum, terms, begin, 1.0f);
    if (!std::isfinite(Largest(sum.data(), sum.size()))) return false;
  }
  return true;
}

bool Parameters::Clip(const optim::Clipping& clipping) {
  // Clipping an element could hide that it was not finite.
  if (clipping.value > 0 || clipping.norm == 0) {
    if (!GradientsFinite()) return false;
  }
  const auto trained = [this](auto&& change) {
    for (size_t v = 0; v < table_.variables.size(); ++v) {
      if (table_.variables[v].role != optim::VariableRole::kTrained) continue;
      const auto g = gradients(v);
      change(g.data(), g.size());
    }
  };
  if (clipping.value > 0) trained([&](float* g, size_t n) { optim::Clamp(g, n, clipping.value); });
  if (clipping.norm == 0) return true;

  // Computes the norm and checks for non-finite elements in one pass.
  double squared = 0, others = 0;
  for (size_t v = 0; v < table_.variables.size(); ++v) {
    const auto role = table_.variables[v].role;
    if (role == optim::VariableRole::kMoments) continue;
    const auto g = gradients(v);
    const bool counts = role == optim::VariableRole::kTrained;
    (counts ? squared : others) += optim::SquaredNorm(g.data(), g.size());
  }
  if (!std::isfinite(squared) || !std::isfinite(others)) return false;
  const float factor = optim::ClipFactor(std::sqrt(squared), clipping.norm);
  if (factor < 1) trained([&](float* g, size_t n) { optim::Scale(g, n, factor); });
  return true;
}

std::span<float> Parameters::Whole(const Buffer& buffer, size_t variable) const {
  return {reinterpret_cast<float*>(buffer.data()) + starts_[variable],
          static_cast<size_t>(table_.variables[variable].shape.elements())};
}

std::span<float> Parameters::Part(const Buffer& buffer, SliceId slice) const {
  const auto& spec = table_.slices[slice.value];
  return Whole(buffer, spec.variable).subspan(spec.begin, spec.elements());
}

}  // namespace leat::protocol

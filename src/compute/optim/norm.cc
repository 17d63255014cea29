#include "compute/optim/norm.h"

#include <algorithm>

#include "base/multiversion.h"

namespace leat::optim {

double SumOfLanes(const double* lanes) {
  double sum = 0;
  for (size_t l = 0; l < kNormLanes; ++l) sum += lanes[l];
  return sum;
}

LEAT_MULTIVERSION
double SquaredNorm(const float* x, size_t n) {
  double lanes[kNormLanes] = {};
  const size_t whole = n / kNormLanes * kNormLanes;
  for (size_t i = 0; i < whole; i += kNormLanes) {
    for (size_t l = 0; l < kNormLanes; ++l) lanes[l] += double{x[i + l]} * double{x[i + l]};
  }
  for (size_t i = whole; i < n; ++i) lanes[i - whole] += double{x[i]} * double{x[i]};
  return SumOfLanes(lanes);
}

LEAT_MULTIVERSION
void Scale(float* x, size_t n, float factor) {
  for (size_t i = 0; i < n; ++i) x[i] *= factor;
}

LEAT_MULTIVERSION
void Clamp(float* x, size_t n, float limit) {
  for (size_t i = 0; i < n; ++i) {
    const float below = x[i] < limit ? x[i] : limit;
    x[i] = below > -limit ? below : -limit;
  }
}

float ClipFactor(double norm, float limit) {
  return static_cast<float>(std::min(1.0, double{limit} / (norm + 1e-6)));
}

}  // namespace leat::optim

#include "train/collective/all_reduce.h"

#include <cstring>

#include "base/multiversion.h"

namespace leat::collective {
namespace {

// `into` is one of the operands or separate from both, so elements are independent.
#if defined(__clang__)
#define LEAT_NO_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#else
#define LEAT_NO_DEPENDENCE _Pragma("GCC ivdep")
#endif

LEAT_MULTIVERSION
void Sum(float* into, const float* left, const float* right, size_t n) {
  LEAT_NO_DEPENDENCE
  for (size_t i = 0; i < n; ++i) into[i] = left[i] + right[i];
}

LEAT_MULTIVERSION
void Max(uint64_t* into, const uint64_t* left, const uint64_t* right, size_t n) {
  LEAT_NO_DEPENDENCE
  for (size_t i = 0; i < n; ++i) into[i] = left[i] < right[i] ? right[i] : left[i];
}

}  // namespace

void SumF32(std::byte* into, const std::byte* left, const std::byte* right, size_t bytes) {
  Sum(reinterpret_cast<float*>(into), reinterpret_cast<const float*>(left),
      reinterpret_cast<const float*>(right), bytes / sizeof(float));
}

void MaxU64(std::byte* into, const std::byte* left, const std::byte* right, size_t bytes) {
  Max(reinterpret_cast<uint64_t*>(into), reinterpret_cast<const uint64_t*>(left),
      reinterpret_cast<const uint64_t*>(right), bytes / sizeof(uint64_t));
}

void CombineLanes(const Bucket& bucket, uint64_t begin, uint64_t bytes, const std::byte* came) {
  std::byte* into = bucket.data.data() + begin;
  auto lane = bucket.lanes.begin();
  const std::byte* sum = came != nullptr ? came : (lane++)->data() + begin;
  if (lane == bucket.lanes.end() && sum != into) std::memcpy(into, sum, bytes);
  for (; lane != bucket.lanes.end(); ++lane, sum = into)
    bucket.reduce.combine(into, sum, lane->data() + begin, bytes);
}

Result<std::vector<ByteView>> AllReduce::Contributions() {
  return std::vector<ByteView>{};
}

}  // namespace leat::collective

#include "train/collective/all_reduce.h"

#include <cstring>

namespace leat::collective {

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

#include "protocol/allreduce/bucket_plan.h"

namespace leat::protocol {

std::vector<VariableRange> PlanBuckets(std::span<const uint64_t> variable_bytes, uint64_t bucket_bytes) {
  std::vector<VariableRange> buckets;
  for (size_t end = variable_bytes.size(); end > 0;) {
    size_t first = end;
    uint64_t bytes = 0;
    do {
      bytes += variable_bytes[--first];
    } while (first > 0 && bytes < bucket_bytes);
    buckets.push_back({first, end});
    end = first;
  }
  return buckets;
}

}  // namespace leat::protocol

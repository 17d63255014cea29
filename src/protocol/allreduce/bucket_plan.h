// Divides the gradients of a step into buckets. Members reduce each bucket while back-propagation still
// computes the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace leat::protocol {

// Variables [first, end) of the table.
struct VariableRange {
  size_t first = 0;
  size_t end = 0;
  friend bool operator==(const VariableRange&, const VariableRange&) = default;
};

// Buckets of whole variables in the order of their reduction: the last variables come first, because their
// gradients are ready first. A bucket takes variables until it has at least `bucket_bytes`; the last one
// takes the rest. Every variable is in exactly one bucket. Pure.
std::vector<VariableRange> PlanBuckets(std::span<const uint64_t> variable_bytes, uint64_t bucket_bytes);

}  // namespace leat::protocol

// Element-wise reductions. A result depends on its two operands alone, not on the division into pieces or the
// vector width of the machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace leat::collective {

struct ReduceOp {
  // into = left ∘ right, element by element; `into` may be `left` or `right`. Thread-safe.
  void (*combine)(std::byte* into, const std::byte* left, const std::byte* right, size_t bytes) = nullptr;
  uint32_t element_bytes = 0;
  uint8_t kind = 0;  // identifies the operation in messages and to MPI
  friend bool operator==(const ReduceOp&, const ReduceOp&) = default;
};

void SumF32(std::byte* into, const std::byte* left, const std::byte* right, size_t bytes);
void MaxU64(std::byte* into, const std::byte* left, const std::byte* right, size_t bytes);

inline constexpr ReduceOp kSumF32{&SumF32, 4, 1};
inline constexpr ReduceOp kMaxU64{&MaxU64, 8, 2};

}  // namespace leat::collective

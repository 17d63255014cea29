// All-reduce: combines the members' buffers of a group by a reduce function and gives every member the
// result. It works on bytes, independent of tensors.
//
// Members have ranks 0 … members - 1. All start the same buckets in the same order with the same sizes;
// several buckets may be in progress. Loop's thread only: `done` is called from the loop, never inside Start
// or Abort, and the loop moves the bytes.
//
// The result has identical bits on every member, and is reproducible for the same group and contributions.
// After the first failure (a member dies or stalls, a deadline, Abort) the group is unusable: all current and
// later buckets end with the same status, and no memory of the caller is touched from then on. Destruction
// has the same effect, without calling `done`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "compute/tensor/buffer.h"

namespace leat::collective {

// An element-wise reduction. Its result depends on its two operands alone, not on the division into pieces or
// the vector width of the machine.
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

// The order in which the contributions to an element are added.
enum class Order : uint8_t {
  kAny = 0,    // the fastest; the order depends on the number of members and the size of the bucket
  kLanes = 1,  // ((lane 0 + lane 1) + lane 2) + …: independent of how lanes are distributed over ranks
};

struct Bucket {
  // Receives the result; a whole number of elements. kAny: contains this member's contribution before.
  std::span<std::byte> data;
  // kLanes: this member's contributions in lane order, each as long as `data`. The lanes of rank 0 precede
  // those of rank 1, and so on. Any rank but 0 may have none. The first may be `data` itself; otherwise they
  // must not overlap with it.
  std::vector<std::span<const std::byte>> lanes = {};
  ReduceOp reduce = kSumF32;
  Order order = Order::kAny;
  // The buffer that contains `data` if peers on this host can read it (net::MakeSharedBuffer). It is kept
  // alive while they may read it, if necessary longer than the bucket.
  Buffer memory = {};
  // Makes the contributions of all members readable instead of combining them; the caller combines them (see
  // Contributions). Requires `memory` and kAny. One such bucket at a time.
  bool gather_only = false;
};

// kLanes: adds this member's lanes, in order, to the partial sum `came` of the lower ranks (null: none), and
// stores a piece of the bucket's data.
void CombineLanes(const Bucket& bucket, uint64_t begin, uint64_t bytes, const std::byte* came);

class AllReduce {
 public:
  virtual ~AllReduce() = default;
  // `bucket.data` must not be accessed until `done`. Then it contains the result if ok, otherwise undefined
  // contents.
  virtual void Start(Bucket bucket, std::function<void(const Status&)> done) = 0;
  // If false, gather_only is ignored and `data` receives the result.
  virtual bool supports_gather_only() const { return false; }
  // Each member's contribution to the gather_only bucket, by rank, once its `done` was called. The result is
  // their reduction in that order. Valid until Release, which lets the others reuse their memory, and at most
  // until the current loop callback returns. Fails once the group has ended.
  virtual Result<std::vector<ByteView>> Contributions();
  virtual void Release() {}
  // Ends everything now; the reason is sent to the other members.
  virtual void Abort(Status why) = 0;
  virtual uint32_t rank() const = 0;
  virtual uint32_t members() const = 0;
  // The member that caused the failure, if it was a single one.
  virtual std::optional<uint32_t> lost() const = 0;
  // The member that this one could not connect to, or that no longer answers it. Others may reach it.
  virtual std::optional<uint32_t> unreachable() const { return std::nullopt; }
};

}  // namespace leat::collective

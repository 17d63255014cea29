// The sum (or another reduction) over all members of a group, of memory that each of them has: bytes and a
// reduce function, nothing about tensors.
//
// Members are ranks 0 … members - 1. All start the same buckets in the same order with the same sizes, and
// any number of them may be under way. Loop's thread only: calls are made from it, `done` is called from the
// loop (never from within Start or Abort), and whoever runs the loop moves the bytes.
//
// The result has the same bits on every member, for the same group and the same contributions always the same
// ones. After the first failure (a member that dies or stalls, a deadline, Abort) the group is of no more
// use: every bucket that is under way, and every later one, ends with the same status; from that moment no
// memory of the caller's is touched. Destroying it does the same without a word.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "collective/reduce.h"
#include "tensor/buffer.h"

namespace leat::collective {

// In which order an element's contributions are added.
enum class Order : uint8_t {
  kAny = 0,    // the fastest; depends on how many members there are and on the bucket's size
  kLanes = 1,  // ((lane 0 + lane 1) + lane 2) + …: depends on the lanes alone, not on who has them
};

struct Bucket {
  // The result comes here. kAny: this member's contribution is here before. A whole number of elements.
  std::span<std::byte> data;
  // kLanes: this member's contributions in lane order, each as long as `data`; the lanes of rank 0 come
  // before those of rank 1, and so on. A rank may have none, except rank 0. The first may be `data` itself;
  // otherwise they don't overlap with it.
  std::vector<std::span<const std::byte>> lanes = {};
  ReduceOp reduce = kSumF32;
  Order order = Order::kAny;
  // What `data` lies in, where it is shared with others on this host (net::MakeSharedBuffer): held for as
  // long as they may look at it, if need be longer than the bucket lives.
  Buffer memory = {};
  // Whoever started it adds up by himself, where that is better: see Contributions. Needs `memory`, and
  // kAny. One at a time.
  bool gather_only = false;
};

// A piece of a bucket in the order of lanes: adds this member's lanes, one after the other, to what came from
// the ranks before (null: none), into the bucket's data.
void CombineLanes(const Bucket& bucket, uint64_t begin, uint64_t bytes, const std::byte* came);

class AllReduce {
 public:
  virtual ~AllReduce() = default;
  // The bucket's memory belongs to the all-reduce until `done`: with ok it holds the result; otherwise what
  // it holds means nothing.
  virtual void Start(Bucket bucket, std::function<void(const Status&)> done) = 0;
  // Whether buckets that may be left apart are; else `data` holds the result of those, too.
  virtual bool supports_gather_only() const { return false; }
  // Of the bucket that was left apart, from its `done` on: what each member has, by rank. The result is their
  // reduction in that order. Valid until Release, which lets the others have their memory back, and no longer
  // than to the end of the upcall of the loop that asks: once the group has ended there are none.
  virtual Result<std::vector<ByteView>> Contributions();
  virtual void Release() {}
  // Ends everything now; the others are told why.
  virtual void Abort(Status why) = 0;
  virtual uint32_t rank() const = 0;
  virtual uint32_t members() const = 0;
  // Who the failure is put down to, once there is one and where it is one member's.
  virtual std::optional<uint32_t> lost() const = 0;
};

}  // namespace leat::collective

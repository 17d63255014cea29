// The seam between ops and the code that computes them.
//
// A backend (reference loops, oneDNN, later a GPU) is a KernelTable: op kind → factory. A factory is called
// once when a plan is compiled, with everything that never changes (the op's attributes, all types), and
// returns the prepared kernel, or nullptr when it does not cover this case. Run then only moves numbers: it
// allocates nothing and cannot fail, since shapes were checked when the graph was built; indices that come
// from data are checked before they enter a plan.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "graph/graph.h"

namespace leat::graph {

// Pointers to the elements; what they are the kernel knows since it was made.
struct KernelArgs {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  // At least Kernel::scratch_bytes() bytes, 64-byte aligned, for this call alone.
  std::byte* scratch = nullptr;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Not re-entrant: one kernel runs in one thread at a time.
  virtual void Run(const KernelArgs& args) = 0;
  virtual size_t scratch_bytes() const { return 0; }
  // The output that may be computed in the memory of `input` (same size), -1 for none. Called after creation.
  // The plan does so only where nobody else needs that input and no other input of the call lies in the same
  // memory.
  virtual int OutputInPlaceOf(int /*input*/) const { return -1; }
};

struct KernelRequest {
  const Op& op;  // outlives the kernel; the spans live for the factory's call only
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
  // Threads that one kernel may use.
  int intra_op_threads = 1;
};

using KernelFactory = std::function<std::unique_ptr<Kernel>(const KernelRequest&)>;

struct KernelTable {
  std::string backend;  // "reference", "onednn"
  std::unordered_map<std::string_view, KernelFactory> factories;
  bool fast_bf16 = false;  // products of bf16 take less time than of f32 on this machine
  // The kind of devices that these kernels run on (engine/devices/devices.h).
  std::string device_kind = "cpu";
};

}  // namespace leat::graph

// The interface between ops and the backends that compute them.
//
// A backend (reference loops, optimized CPU, later a GPU) is a KernelTable, a map from op kind to factory.
// When a plan is compiled, the factory gets the op and all types and returns a prepared kernel, or nullptr if
// it does not support this case. Kernel::Run allocates nothing and cannot fail: shapes were checked when the
// graph was built, and indices in the data are checked before a plan runs.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "compute/graph/graph.h"

namespace leat::graph {

// Pointers to the elements. Their types are those of the KernelRequest.
struct KernelArgs {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  // At least Kernel::scratch_bytes() bytes, 64-byte aligned, for this call alone.
  std::byte* scratch = nullptr;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Not thread-safe: one kernel runs in one thread at a time.
  virtual void Run(const KernelArgs& args) = 0;
  virtual size_t scratch_bytes() const { return 0; }
  // The index of an output of the same size that may overwrite `input` while it is computed, -1 for none. The
  // plan uses this only if nothing else needs that input and no other input of the call has the same memory.
  virtual int OutputInPlaceOf(int /*input*/) const { return -1; }
};

struct KernelRequest {
  const Op& op;  // outlives the kernel; the spans are valid only during the factory's call
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
  // Number of threads that the kernel may use.
  int intra_op_threads = 1;
};

using KernelFactory = std::function<std::unique_ptr<Kernel>(const KernelRequest&)>;

struct KernelTable {
  // Adds the kernel of an op that has none yet; a second one is a bug.
  void Add(std::string_view op, KernelFactory factory) {
    const bool is_new = factories.emplace(op, std::move(factory)).second;
    LEAT_CHECK(is_new);
  }

  std::string backend;  // "reference", "cpu"
  std::unordered_map<std::string_view, KernelFactory> factories;
  bool fast_bf16 = false;  // whether bf16 matrix products are faster than f32 on this machine
  // Kind of device that the kernels run on (compute/engine/devices/devices.h).
  std::string device_kind = "cpu";
};

}  // namespace leat::graph

// Runs oneDNN primitives in kernels. A primitive is prepared once; each run only sets pointers and executes
// it.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "compute/kernels/cpu/kernels.h"
#include "compute/ops/matrix/matrix.h"

namespace leat::cpu {

const dnnl::engine& Engine();

// For f32 and bf16.
dnnl::memory::data_type DnnlType(DType type);

// Sets the number of OpenMP threads for its lifetime. oneDNN reads it when it creates and when it runs a
// primitive, and the two must agree. With one thread, OpenMP never starts its pool.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int old_;
  bool changed_ = false;
};

int ThreadsOf(const KernelRequest& request);

// The activation as a post-op of a matrix product or convolution.
dnnl::post_ops PostOpsOf(ops::Activation activation);

// An argument of a primitive: its role, such as DNNL_ARG_SRC, and its memory layout.
struct Argument {
  int what = 0;
  dnnl::memory::desc description;
};

// A primitive with its memory objects and argument list. Uses the C interface, which takes an array; the C++
// one builds a map in each run.
class PreparedPrimitive {
 public:
  PreparedPrimitive() = default;
  PreparedPrimitive(dnnl::primitive primitive, const std::vector<Argument>& arguments);
  // Sets the memory of the i-th argument.
  void Set(size_t i, const void* data);
  void Run();

 private:
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace leat::cpu

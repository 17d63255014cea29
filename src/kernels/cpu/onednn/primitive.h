// How kernels run oneDNN's primitives: prepared once, then pointers are set and the primitive runs.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "ops/matrix/dense.h"

namespace leat::onednn {

const dnnl::engine& Engine();

// Whether the machine has instructions for products of bf16.
bool HasBf16();
// Of f32 and bf16.
dnnl::memory::data_type DnnlType(DType type);

// oneDNN takes as many threads as OpenMP would give the calling thread, both when it plans a primitive and
// when it runs one, and these two must agree. With one thread OpenMP's pool is never started.
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

// The activation as what a product or convolution does last.
dnnl::post_ops PostOpsOf(ops::Activation activation);

// What a primitive reads or writes: DNNL_ARG_SRC and how it lies in memory.
struct Argument {
  int what = 0;
  dnnl::memory::desc description;
};

// A primitive with its memory objects and argument list, made once; a run sets pointers. The C interface
// executes from an array, where the C++ one would build a map first.
class PreparedPrimitive {
 public:
  PreparedPrimitive() = default;
  PreparedPrimitive(dnnl::primitive primitive, const std::vector<Argument>& arguments);
  // Where the i-th argument lies from now on.
  void Set(size_t i, const void* data);
  void Run();

 private:
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// A kernel that is one primitive: the kernel's inputs and outputs in the order of `inputs` and `outputs`.
class PrimitiveKernel final : public graph::Kernel {
 public:
  PrimitiveKernel(dnnl::primitive primitive, const std::vector<Argument>& inputs,
                  const std::vector<Argument>& outputs, const dnnl::memory::desc& scratch, int threads);
  void Run(const KernelArgs& args) override;
  size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  int threads_;
  size_t inputs_, outputs_, scratch_bytes_;
  PreparedPrimitive primitive_;
};

}  // namespace leat::onednn

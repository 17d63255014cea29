#include <omp.h>

#include <algorithm>
#include <array>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <thread>

#include "base/check.h"
#include "kernels/onednn/kernels.h"
#include "ops/dense.h"
#include "ops/matmul.h"

namespace leat::onednn {
namespace {

using dnnl::memory;

// Never destroyed: kernels may outlive whatever static order the program ends in.
const dnnl::engine& Engine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

// oneDNN takes as many threads as OpenMP would give the calling thread, both when it plans a primitive and
// when it runs one, and these two must agree. With one thread OpenMP's pool is never started.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads) : old_(omp_get_max_threads()) {
    if (threads != old_) omp_set_num_threads(threads);
    changed_ = threads != old_;
  }
  ~ThreadLimit() {
    if (changed_) omp_set_num_threads(old_);
  }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int old_;
  bool changed_ = false;
};

int ThreadsOf(const KernelRequest& request) {
  if (request.intra_op_threads > 0) return request.intra_op_threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

struct Product {
  ops::MatMulSizes sizes;
  bool transpose_a;
  bool transpose_b;
  bool bias = false;
  ops::Activation activation = ops::Activation::kNone;
};

memory::desc Matrix(int64_t rows, int64_t columns, bool transposed = false) {
  return {
      {rows, columns}, memory::data_type::f32, transposed ? memory::format_tag::ba : memory::format_tag::ab};
}

dnnl::matmul::primitive_desc Describe(const Product& p) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops after;
  switch (p.activation) {
    case ops::Activation::kNone:
      break;
    case ops::Activation::kRelu:
      after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
      break;
    case ops::Activation::kSigmoid:
      after.append_eltwise(1, dnnl::algorithm::eltwise_logistic, 0, 0);
      break;
    case ops::Activation::kTanh:
      after.append_eltwise(1, dnnl::algorithm::eltwise_tanh, 0, 0);
      break;
  }
  attributes.set_post_ops(after);
  const memory::desc a = Matrix(p.sizes.m, p.sizes.k, p.transpose_a);
  const memory::desc b = Matrix(p.sizes.k, p.sizes.n, p.transpose_b);
  const memory::desc y = Matrix(p.sizes.m, p.sizes.n);
  const auto product =
      p.bias ? dnnl::matmul::desc(a, b, Matrix(1, p.sizes.n), y) : dnnl::matmul::desc(a, b, y);
  return {product, attributes, Engine()};
}

// Primitive, memory objects and argument list are made once; a run sets pointers. The C interface executes
// from an array, where the C++ one would build a map first.
class ProductKernel final : public graph::Kernel {
 public:
  ProductKernel(const dnnl::matmul::primitive_desc& description, bool bias, int threads)
      : threads_(threads),
        scratch_bytes_(description.scratchpad_desc().get_size()),
        stream_(Engine()),
        primitive_(description) {
    Add(DNNL_ARG_SRC, description.src_desc());
    Add(DNNL_ARG_WEIGHTS, description.weights_desc());
    if (bias) Add(DNNL_ARG_BIAS, description.query_md(dnnl::query::weights_md, 1));
    inputs_ = count_;
    Add(DNNL_ARG_DST, description.dst_desc());
    Add(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
  }

  void Run(const KernelArgs& args) override {
    for (size_t i = 0; i < inputs_; ++i) Set(i, args.inputs[i]);
    Set(inputs_, args.outputs[0]);
    Set(inputs_ + 1, args.scratch);
    const ThreadLimit limit(threads_);
    LEAT_CHECK(dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(count_),
                                      arguments_.data()) == dnnl_success);
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  void Add(int what, const memory::desc& description) {
    memories_[count_] = memory(description, Engine(), DNNL_MEMORY_NONE);
    arguments_[count_] = {what, memories_[count_].get()};
    ++count_;
  }
  void Set(size_t i, const std::byte* data) {
    LEAT_CHECK(dnnl_memory_set_data_handle(arguments_[i].memory, const_cast<std::byte*>(data)) ==
               dnnl_success);
  }

  int threads_;
  size_t scratch_bytes_;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  std::array<memory, 5> memories_;
  std::array<dnnl_exec_arg_t, 5> arguments_{};
  size_t count_ = 0;
  size_t inputs_ = 0;
};

KernelPtr MakeProduct(const Product& p, int threads) {
  const auto [m, n, k] = p.sizes;
  // Without elements oneDNN has no primitive, and beyond 31 bits not every one of its loops is sound.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (m == 0 || n == 0 || k == 0 || m > kMost || n > kMost || k > kMost) return nullptr;
  const ThreadLimit limit(threads);
  try {
    return std::make_unique<ProductKernel>(Describe(p), p.bias, threads);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_unimplemented) return nullptr;
    throw;
  }
}

}  // namespace

KernelPtr MakeMatMul(const KernelRequest& request) {
  const auto& op = static_cast<const ops::MatMul&>(request.op);
  const auto sizes =
      ops::MatMulSizesOf(request.inputs[0].shape, request.inputs[1].shape, op.transpose_a, op.transpose_b);
  return MakeProduct({sizes, op.transpose_a, op.transpose_b}, ThreadsOf(request));
}

KernelPtr MakeDense(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Dense&>(request.op);
  const auto sizes =
      ops::MatMulSizesOf(request.inputs[0].shape, request.inputs[1].shape, op.transpose_a, op.transpose_b);
  return MakeProduct({sizes, op.transpose_a, op.transpose_b, true, op.activation}, ThreadsOf(request));
}

}  // namespace leat::onednn

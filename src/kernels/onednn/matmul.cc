#include <limits>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/onednn/kernels.h"
#include "kernels/onednn/primitive.h"
#include "ops/matrix/dense.h"
#include "ops/matrix/matmul.h"

namespace leat::onednn {
namespace {

using dnnl::memory;

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

KernelPtr MakeProduct(const Product& p, int threads) {
  const auto [m, n, k] = p.sizes;
  // Without elements oneDNN has no primitive, and beyond 31 bits not every one of its loops is sound.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (m == 0 || n == 0 || k == 0 || m > kMost || n > kMost || k > kMost) return nullptr;
  const ThreadLimit limit(threads);
  try {
    const auto description = Describe(p);
    std::vector<Argument> arguments = {{DNNL_ARG_SRC, description.src_desc()},
                                       {DNNL_ARG_WEIGHTS, description.weights_desc()}};
    if (p.bias) arguments.push_back({DNNL_ARG_BIAS, description.query_md(dnnl::query::weights_md, 1)});
    return std::make_unique<PrimitiveKernel>(dnnl::matmul(description), std::move(arguments),
                                             std::vector<Argument>{{DNNL_ARG_DST, description.dst_desc()}},
                                             description.scratchpad_desc(), threads);
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

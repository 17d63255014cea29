#include <limits>
#include <oneapi/dnnl/dnnl.hpp>

#include "compute/kernels/cpu/kernels.h"
#include "compute/kernels/cpu/onednn/primitive.h"
#include "compute/ops/matrix/matrix.h"
#include "compute/ops/shape/shape.h"

namespace leat::cpu {
namespace {

using dnnl::memory;

struct Product {
  ops::MatMulSizes sizes;
  bool transpose_a;
  bool transpose_b;
  bool bias = false;
  ops::Activation activation = ops::Activation::kNone;
  DType operands = DType::kF32;
};

memory::desc Matrix(int64_t rows, int64_t columns, bool transposed = false, DType type = DType::kF32) {
  return {{rows, columns}, DnnlType(type), transposed ? memory::format_tag::ba : memory::format_tag::ab};
}

dnnl::matmul::primitive_desc Describe(const Product& p) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(PostOpsOf(p.activation));
  const memory::desc a = Matrix(p.sizes.m, p.sizes.k, p.transpose_a, p.operands);
  const memory::desc b = Matrix(p.sizes.k, p.sizes.n, p.transpose_b, p.operands);
  const memory::desc y = Matrix(p.sizes.m, p.sizes.n);
  const auto product =
      p.bias ? dnnl::matmul::desc(a, b, Matrix(1, p.sizes.n), y) : dnnl::matmul::desc(a, b, y);
  return {product, attributes, Engine()};
}

// A kernel implemented by one primitive. `arguments` are the inputs and then the output.
class ProductKernel final : public graph::Kernel {
 public:
  ProductKernel(dnnl::primitive primitive, std::vector<Argument> arguments, const memory::desc& scratch,
                int threads)
      : threads_(threads), inputs_(arguments.size() - 1), scratch_bytes_(scratch.get_size()) {
    arguments.push_back({DNNL_ARG_SCRATCHPAD, scratch});
    primitive_ = PreparedPrimitive(std::move(primitive), arguments);
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  void Run(const KernelArgs& args) override {
    for (size_t i = 0; i < inputs_; ++i) primitive_.Set(i, args.inputs[i]);
    primitive_.Set(inputs_, args.outputs[0]);
    primitive_.Set(inputs_ + 1, args.scratch);
    const ThreadLimit limit(threads_);
    primitive_.Run();
  }

 private:
  int threads_;
  size_t inputs_, scratch_bytes_;
  PreparedPrimitive primitive_;
};

KernelPtr MakeProduct(const Product& p, int threads) {
  const auto [m, n, k] = p.sizes;
  // oneDNN has no primitive for empty tensors, and some of its loops overflow beyond 31 bits.
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (m == 0 || n == 0 || k == 0 || m > kMax || n > kMax || k > kMax) return nullptr;
  if (p.operands == DType::kBf16 && !HasBf16()) return nullptr;
  const ThreadLimit limit(threads);
  try {
    const auto description = Describe(p);
    std::vector<Argument> arguments = {{DNNL_ARG_SRC, description.src_desc()},
                                       {DNNL_ARG_WEIGHTS, description.weights_desc()}};
    if (p.bias) arguments.push_back({DNNL_ARG_BIAS, description.query_md(dnnl::query::weights_md, 1)});
    arguments.push_back({DNNL_ARG_DST, description.dst_desc()});
    return std::make_unique<ProductKernel>(dnnl::matmul(description), std::move(arguments),
                                           description.scratchpad_desc(), threads);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_unimplemented) return nullptr;
    throw;
  }
}

// Many products, one after the other, with an offset into a and b for each.
class BatchKernel final : public graph::Kernel {
 public:
  struct Places {
    size_t a, b;  // bytes from the first element
  };
  BatchKernel(KernelPtr product, std::vector<Places> places, size_t y_bytes)
      : product_(std::move(product)), places_(std::move(places)), y_bytes_(y_bytes) {}
  size_t scratch_bytes() const override { return product_->scratch_bytes(); }
  void Run(const KernelArgs& args) override {
    std::byte* y = args.outputs[0];
    for (const Places& at : places_) {
      const std::byte* inputs[] = {args.inputs[0] + at.a, args.inputs[1] + at.b};
      product_->Run({inputs, {&y, 1}, args.scratch});
      y += y_bytes_;
    }
  }

 private:
  KernelPtr product_;
  std::vector<Places> places_;
  size_t y_bytes_;
};

// The offset of each matrix of a batch in a tensor that broadcasts to it.
std::vector<size_t> PlacesOf(const TensorType& type, const Shape& batch) {
  const Shape& tensor = type.shape;
  const auto strides = ops::BroadcastStrides(ops::BatchOf(tensor), batch);
  const auto bytes = static_cast<size_t>(ops::MatrixOf(tensor).elements()) * SizeOf(type.dtype);
  std::vector<size_t> places = {0};
  for (size_t axis = 0; axis < batch.rank(); ++axis) {
    std::vector<size_t> next;
    for (const size_t place : places) {
      for (int64_t i = 0; i < batch[axis]; ++i) {
        next.push_back(place + static_cast<size_t>(i * strides[axis]) * bytes);
      }
    }
    places = std::move(next);
  }
  return places;
}

KernelPtr MakeBatchMatMul(const KernelRequest& request) {
  const auto& op = static_cast<const ops::BatchMatMul&>(request.op);
  const Shape &a = request.inputs[0].shape, &b = request.inputs[1].shape, &y = request.outputs[0].shape;
  Product p{ops::MatMulSizesOf(ops::MatrixOf(a), ops::MatrixOf(b), op.transpose_a, op.transpose_b),
            op.transpose_a, op.transpose_b};
  p.operands = request.inputs[0].dtype;
  const Shape batch = ops::BatchOf(y);
  if (ops::BatchOf(b).elements() == 1 && !op.transpose_a) {
    // All matrices of a are multiplied by the same b: one larger product.
    p.sizes.m *= batch.elements();
    return MakeProduct(p, ThreadsOf(request));
  }
  KernelPtr product = MakeProduct(p, ThreadsOf(request));
  if (product == nullptr) return nullptr;
  const std::vector<size_t> in_a = PlacesOf(request.inputs[0], batch),
                            in_b = PlacesOf(request.inputs[1], batch);
  std::vector<BatchKernel::Places> places;
  for (size_t i = 0; i < in_a.size(); ++i) places.push_back({in_a[i], in_b[i]});
  return std::make_unique<BatchKernel>(std::move(product), std::move(places),
                                       static_cast<size_t>(ops::MatrixOf(y).elements()) * sizeof(float));
}

KernelPtr MakeMatMul(const KernelRequest& request) {
  const auto& op = static_cast<const ops::ProductOp&>(request.op);
  const auto sizes =
      ops::MatMulSizesOf(request.inputs[0].shape, request.inputs[1].shape, op.transpose_a, op.transpose_b);
  const auto* dense = dynamic_cast<const ops::Dense*>(&op);
  return MakeProduct({.sizes = sizes,
                      .transpose_a = op.transpose_a,
                      .transpose_b = op.transpose_b,
                      .bias = dense != nullptr,
                      .activation = dense != nullptr ? dense->activation : ops::Activation::kNone,
                      .operands = request.inputs[0].dtype},
                     ThreadsOf(request));
}

}  // namespace

void AddMatMul(graph::KernelTable& table) {
  table.Add("matmul", MakeMatMul);
  table.Add("batch_matmul", MakeBatchMatMul);
  table.Add("dense", MakeMatMul);
}

}  // namespace leat::cpu

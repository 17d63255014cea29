#include "products.h"

#include <omp.h>

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "base/rng.h"
#include "measure.h"

namespace leat::bench {
namespace {

using dnnl::memory;

struct Primitive {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul matmul;
  std::unordered_map<int, memory> args;
};

memory::desc Describe(int64_t rows, int64_t columns, bool transposed) {
  return {
      {rows, columns}, memory::data_type::f32, transposed ? memory::format_tag::ba : memory::format_tag::ab};
}

}  // namespace

float* Products::Matrix(int64_t rows, int64_t columns) {
  const auto n = static_cast<size_t>(rows * columns);
  matrices_.emplace_back(n * sizeof(float));
  auto* data = reinterpret_cast<float*>(matrices_.back().data());
  Rng rng(matrices_.size());
  for (size_t i = 0; i < n; ++i) data[i] = static_cast<float>(rng.Normal());
  return data;
}

void Products::Add(float* y, const float* a, bool transpose_a, const float* b, bool transpose_b, int64_t m,
                   int64_t n, int64_t k) {
  auto p = std::make_shared<Primitive>();
  const auto a_desc = Describe(m, k, transpose_a), b_desc = Describe(k, n, transpose_b),
             y_desc = Describe(m, n, false);
  p->matmul = dnnl::matmul({dnnl::matmul::desc(a_desc, b_desc, y_desc), p->engine});
  p->args = {{DNNL_ARG_SRC, memory(a_desc, p->engine, const_cast<float*>(a))},
             {DNNL_ARG_WEIGHTS, memory(b_desc, p->engine, const_cast<float*>(b))},
             {DNNL_ARG_DST, memory(y_desc, p->engine, y)}};
  const std::function<void()> by_matmul = [p] { p->matmul.execute(p->stream, p->args); };
  const std::function<void()> by_sgemm = [=] {
    dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, transpose_a ? m : k, b,
               transpose_b ? k : n, 0.0f, y, n);
  };
  calls_.push_back(Compare(by_matmul, by_sgemm, 0.2, Time::kThread).ratio < 1 ? by_matmul : by_sgemm);
  flops_ += 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

Products::Products(const std::vector<int64_t>& sizes, int64_t batch) {
  omp_set_num_threads(1);
  const size_t layers = sizes.size() - 1;
  std::vector<float*> h = {Matrix(batch, sizes[0])}, w, dh = {nullptr}, dw;
  for (size_t i = 0; i < layers; ++i) {
    w.push_back(Matrix(sizes[i], sizes[i + 1]));
    dw.push_back(Matrix(sizes[i], sizes[i + 1]));
    h.push_back(Matrix(batch, sizes[i + 1]));
    dh.push_back(Matrix(batch, sizes[i + 1]));
    Add(h[i + 1], h[i], false, w[i], false, batch, sizes[i + 1], sizes[i]);
  }
  for (size_t i = layers; i-- > 0;) {
    Add(dw[i], h[i], true, dh[i + 1], false, sizes[i], sizes[i + 1], batch);
    if (i > 0) Add(dh[i], dh[i + 1], false, w[i], true, batch, sizes[i], sizes[i + 1]);
  }
}

void Products::Run() const {
  for (const auto& call : calls_) call();
}

}  // namespace leat::bench

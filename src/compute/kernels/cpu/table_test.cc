#include "compute/kernels/cpu/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/testing.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/cases/testing.h"
#include "compute/ops/ops.h"
#include "compute/tensor/dtype.h"

namespace leat::cpu {
namespace {

std::vector<TensorType> TypesOf(const std::vector<Tensor>& tensors) {
  std::vector<TensorType> types;
  for (const auto& t : tensors) types.push_back(t.type());
  return types;
}

// Memory layout of a kernel call.
struct Layout {
  size_t shift = 0;   // elements by which every tensor misses 64-byte alignment
  int in_place = -1;  // the input that an output overwrites
};

// A tensor at a chosen offset, followed by guard bytes that must not change.
class Place {
 public:
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kMark{0xa5};

  Place(const TensorType& type, size_t shift) : bytes_(type.bytes()), buffer_(bytes_ + kGuard + shift * 8) {
    data_ = buffer_.data() + shift * SizeOf(type.dtype);
    std::memset(buffer_.data(), static_cast<int>(kMark), buffer_.size());
  }
  std::byte* data() const { return data_; }
  bool Intact() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (data_[bytes_ + i] != kMark) return false;
    }
    return true;
  }

 private:
  size_t bytes_;
  Buffer buffer_;
  std::byte* data_;
};

// The outputs of the table's kernel; empty if it has none for this case.
std::vector<Tensor> RunKernel(const graph::KernelTable& table, const graph::Op& op,
                              const std::vector<Tensor>& inputs, const Layout& layout = {}, int threads = 1) {
  const auto factory = table.factories.find(op.kind());
  if (factory == table.factories.end()) return {};
  const auto types = TypesOf(inputs);
  const auto out_types = op.Infer(types);
  const auto kernel = factory->second({op, types, out_types, threads});
  if (!kernel) return {};

  std::vector<Place> in, out;
  for (const auto& t : inputs) {
    in.emplace_back(t.type(), layout.shift);
    if (t.bytes() > 0) std::memcpy(in.back().data(), t.raw(), t.bytes());
  }
  for (const auto& t : out_types) out.emplace_back(t, layout.shift);
  std::vector<const std::byte*> in_data;
  std::vector<std::byte*> out_data;
  for (const auto& p : in) in_data.push_back(p.data());
  for (const auto& p : out) out_data.push_back(p.data());
  if (layout.in_place >= 0) {
    const auto i = static_cast<size_t>(layout.in_place);
    out_data[static_cast<size_t>(kernel->OutputInPlaceOf(layout.in_place))] = in[i].data();
  }
  const Buffer scratch(kernel->scratch_bytes());
  // Run twice if no input is overwritten: a kernel must not depend on the content of its outputs.
  for (int run = 0; run < (layout.in_place >= 0 ? 1 : 2); ++run) {
    kernel->Run({in_data, out_data, scratch.data()});
  }
  for (const auto& p : in) EXPECT_TRUE(p.Intact()) << op.kind() << " wrote past an input";
  for (const auto& p : out) EXPECT_TRUE(p.Intact()) << op.kind() << " wrote past an output";
  std::vector<Tensor> result;
  for (size_t i = 0; i < out_types.size(); ++i) {
    result.emplace_back(out_types[i]);
    if (result.back().bytes() > 0) std::memcpy(result.back().raw(), out_data[i], result.back().bytes());
  }
  return result;
}

bool Near(float actual, float expected, double tolerance) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::abs(static_cast<double>(actual) - expected) <= tolerance * (1 + std::abs(expected));
}

template <class T>
std::vector<float> Converted(const Tensor& tensor) {
  std::vector<float> floats;
  for (const T x : tensor.as<const T>()) floats.push_back(ConvertTo<float>(x));
  return floats;
}

std::vector<float> AsFloats(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kI32:
      return Converted<int32_t>(tensor);
    case DType::kI64:
      return Converted<int64_t>(tensor);
    case DType::kU8:
      return Converted<uint8_t>(tensor);
    case DType::kBf16:
      return Converted<Bf16>(tensor);
    case DType::kF32:
      break;
  }
  return Converted<float>(tensor);
}

void ExpectNear(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected, double tolerance,
                const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t t = 0; t < actual.size(); ++t) {
    const auto a = AsFloats(actual[t]);
    const auto e = AsFloats(expected[t]);
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_TRUE(Near(a[i], e[i], tolerance))
          << what << " output " << t << " " << expected[t].type().ToString() << "[" << i << "] is " << a[i]
          << ", the reference has " << e[i];
    }
  }
}

// Compares with the reference in all layouts. Returns whether the table has a kernel for it.
bool Compare(const graph::Op& op, const std::vector<Tensor>& inputs, const std::string& what,
             double tolerance = 3e-6) {
  const auto actual = RunKernel(Table(), op, inputs);
  if (actual.empty()) return false;
  const auto expected = RunKernel(reference::Kernels(), op, inputs);
  ExpectNear(actual, expected, tolerance, what);
  ExpectNear(RunKernel(Table(), op, inputs, {.shift = 1}), expected, tolerance, what + " unaligned");
  const auto types = TypesOf(inputs);
  const auto kernel = Table().factories.at(op.kind())({op, types, op.Infer(types), 1});
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const int output = kernel->OutputInPlaceOf(i);
    if (output < 0) continue;
    EXPECT_EQ(inputs[static_cast<size_t>(i)].bytes(), expected[static_cast<size_t>(output)].bytes()) << what;
    ExpectNear(RunKernel(Table(), op, inputs, {.in_place = i}), expected, tolerance,
               what + " in place of input " + std::to_string(i));
  }
  return true;
}

Tensor Draw(Shape shape, uint64_t seed, float low = -2, float high = 2) {
  return ops::DrawSample({{DType::kF32, shape}, low, high, ops::SampleInput::Draw::kUniform}, seed);
}

std::string Describe(const graph::Op& op, const std::vector<Tensor>& inputs) {
  std::string text(op.kind());
  for (const auto& t : inputs) text += " " + t.type().ToString();
  return text + " " + op.attributes();
}

TEST(CpuTableTest, AgreesWithTheReferenceOnEveryOp) {
  std::set<std::string> covered;
  for (const auto& c : ops::OpCases()) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      std::vector<Tensor> inputs;
      for (const auto& input : c.inputs) inputs.push_back(ops::DrawSample(input, seed * 100 + inputs.size()));
      if (Compare(*c.op, inputs, c.name)) covered.insert(std::string(c.op->kind()));
    }
  }
  // Every row of the table has a case in the list.
  for (const auto& [kind, factory] : Table().factories)
    EXPECT_EQ(covered.count(std::string(kind)), 1u) << kind;
}

// The test above also passes if the table has no bf16 kernels; this one does not.
TEST(CpuTableTest, CoversBf16WhereTheProcessorDoes) {
  if (!Table().fast_bf16) GTEST_SKIP() << AllowedSkip("bf16");
  std::set<std::string> covered;
  for (const auto& c : ops::OpCases()) {
    std::vector<Tensor> inputs;
    for (const auto& input : c.inputs) inputs.push_back(ops::DrawSample(input, inputs.size()));
    const bool is_bf16 = !inputs.empty() && inputs[0].type().dtype == DType::kBf16;
    if (is_bf16 && Compare(*c.op, inputs, c.name)) covered.insert(std::string(c.op->kind()));
  }
  EXPECT_THAT(covered, ::testing::IsSupersetOf({"batch_matmul", "conv2d", "conv2d_bias", "conv2d_grad_input",
                                                "conv2d_grad_weights", "conv2d_grad_weights_bias", "dense",
                                                "matmul"}));
}

TEST(CpuTableTest, UnaryOpsOfAnySize) {
  const std::vector<std::shared_ptr<const graph::Op>> all = {
      std::make_shared<ops::Abs>(),
      std::make_shared<ops::Exp>(),
      std::make_shared<ops::Neg>(),
      std::make_shared<ops::Relu>(),
      std::make_shared<ops::Sigmoid>(),
      std::make_shared<ops::Sign>(),
      std::make_shared<ops::Tanh>(),
      std::make_shared<ops::Square>(),
      std::make_shared<ops::Scale>(0.3f, 1.0f),
  };
  for (const auto& op : all) {
    for (int64_t n = 0; n < 70; ++n) {
      const std::vector<Tensor> inputs = {Draw({n}, static_cast<uint64_t>(n), -6, 6)};
      ASSERT_TRUE(Compare(*op, inputs, Describe(*op, inputs)));
    }
  }
}

TEST(CpuTableTest, NotANumberAndInfinityComeThrough) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::Of<float>(
      {10}, std::vector<float>{NAN, kInfinity, -kInfinity, 0, -0.0f, 1e-42f, 3e38f, -3e38f, 88.9f, -103.9f});
  const std::vector<std::shared_ptr<const graph::Op>> all = {
      std::make_shared<ops::Abs>(),  std::make_shared<ops::Exp>(),     std::make_shared<ops::Neg>(),
      std::make_shared<ops::Relu>(), std::make_shared<ops::Sigmoid>(), std::make_shared<ops::Log>(),
      std::make_shared<ops::Tanh>(), std::make_shared<ops::Square>(),  std::make_shared<ops::Sqrt>(),
  };
  for (const auto& op : all) EXPECT_TRUE(Compare(*op, {x}, std::string(op->kind())));
  // NaN makes its whole row NaN, but does not affect the next row.
  const Tensor rows = Tensor::Of<float>({2, 3}, std::vector<float>{1, NAN, 2, 1, 2, 3});
  EXPECT_TRUE(Compare(ops::Softmax(), {rows}, "softmax"));
  const Tensor labels = Tensor::Of<float>({2}, std::vector<float>{0, NAN});
  EXPECT_TRUE(Compare(ops::SoftmaxCrossEntropy(), {rows, labels}, "softmax_cross_entropy"));
}

TEST(CpuTableTest, GradientsAtKinksAreTheReferences) {
  const Tensor x = Tensor::Of<float>({7}, std::vector<float>{-6, -1, -0.0f, 0, 1, 6, NAN});
  const Tensor dy = Draw({7}, 1);
  const std::vector<std::shared_ptr<const graph::Op>> all = {
      std::make_shared<ops::ClipGrad>(-1.0f, 1.0f),
      std::make_shared<ops::ClipGrad>(0.0f, 6.0f),
      std::make_shared<ops::LeakyReluGrad>(0.3f),
      std::make_shared<ops::EluGrad>(0.5f),
      std::make_shared<ops::ReluGrad>(),
  };
  for (const auto& op : all) EXPECT_TRUE(Compare(*op, {x, dy}, Describe(*op, {x, dy})));
}

// A shape and one that broadcasts against it.
std::pair<Shape, Shape> RandomBroadcast(Rng& rng) {
  std::vector<int64_t> a, b;
  const size_t rank = rng.Below(4);
  for (size_t i = 0; i < rank; ++i) {
    const auto size = static_cast<int64_t>(rng.Below(20) == 0 ? 0 : 1 + rng.Below(24));
    a.push_back(rng.Chance(0.3) ? 1 : size);
    b.push_back(rng.Chance(0.3) ? 1 : size);
  }
  b.erase(b.begin(), b.begin() + static_cast<ptrdiff_t>(rank > 0 ? rng.Below(rank + 1) : 0));
  if (rng.Chance(0.5)) std::swap(a, b);
  return {Shape(a), Shape(b)};
}

TEST(CpuTableTest, RandomBroadcasts) {
  const std::vector<std::shared_ptr<const graph::Op>> all = {
      std::make_shared<ops::Add>(), std::make_shared<ops::Sub>(), std::make_shared<ops::Mul>(),
      std::make_shared<ops::Div>()};
  Rng rng(1);
  int covered = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const auto [a, b] = RandomBroadcast(rng);
    const std::vector<Tensor> inputs = {Draw(a, seed), Draw(b, seed + 1000, 0.5f, 2)};
    const auto& op = *all[seed % all.size()];
    covered += Compare(op, inputs, Describe(op, inputs)) ? 1 : 0;
    // From each shape to the broadcast shape, and back.
    const Shape y = ops::BroadcastShape(a, b);
    const ops::BroadcastTo broadcast(y);
    const ops::SumTo sum(a);
    Compare(broadcast, {inputs[0]}, Describe(broadcast, {inputs[0]}));
    Compare(sum, {Draw(y, seed)}, Describe(sum, {Draw(y, seed)}), 3e-5);
  }
  EXPECT_GT(covered, 300);
}

TEST(CpuTableTest, RandomReductions) {
  Rng rng(2);
  int covered = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<int64_t> sizes;
    std::vector<int> axes;
    for (size_t i = 0; i < 1 + rng.Below(4); ++i) {
      sizes.push_back(static_cast<int64_t>(1 + rng.Below(20)));
      if (rng.Chance(0.5)) axes.push_back(static_cast<int>(i));
    }
    const std::vector<Tensor> inputs = {Draw(Shape(sizes), seed)};
    const ops::ReduceSum sum(axes, rng.Chance(0.5));
    const ops::ReduceMean mean(axes, rng.Chance(0.5));
    covered += Compare(sum, inputs, Describe(sum, inputs), 3e-5) ? 1 : 0;
    Compare(mean, inputs, Describe(mean, inputs));
  }
  EXPECT_GT(covered, 200);
}

TEST(CpuTableTest, RandomSoftmaxes) {
  Rng rng(3);
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const auto batch = static_cast<int64_t>(rng.Below(200));
    const auto classes = static_cast<int64_t>(1 + rng.Below(seed % 10 == 0 ? 5000 : 70));
    const Tensor x = Draw({batch, classes}, seed, -20, 20);
    const Tensor labels = ops::DrawSample(
        {{DType::kF32, {batch}}, -1, static_cast<float>(classes), ops::SampleInput::Draw::kInteger}, seed);
    const Tensor p = Draw({batch, classes}, seed + 1, 0, 2.0f / static_cast<float>(classes));
    const Tensor dloss = Draw({batch}, seed + 2);
    EXPECT_TRUE(Compare(ops::Softmax(), {x}, Describe(ops::Softmax(), {x}), 1e-5));
    EXPECT_TRUE(Compare(ops::LogSoftmax(), {x}, Describe(ops::LogSoftmax(), {x}), 1e-5));
    EXPECT_TRUE(Compare(ops::SoftmaxGrad(), {p, x}, Describe(ops::SoftmaxGrad(), {p, x}), 1e-5));
    EXPECT_TRUE(Compare(ops::SoftmaxCrossEntropy(), {x, labels},
                        Describe(ops::SoftmaxCrossEntropy(), {x, labels}), 1e-5));
    EXPECT_TRUE(Compare(ops::SoftmaxCrossEntropyGrad(), {p, labels, dloss},
                        Describe(ops::SoftmaxCrossEntropyGrad(), {p, labels, dloss})));
  }
}

TEST(CpuTableTest, RandomProducts) {
  constexpr ops::Activation kActivations[] = {ops::Activation::kNone, ops::Activation::kRelu,
                                              ops::Activation::kSigmoid, ops::Activation::kTanh};
  Rng rng(4);
  for (uint64_t seed = 0; seed < 120; ++seed) {
    int64_t sizes[3];
    for (auto& size : sizes) {
      size = static_cast<int64_t>(rng.Chance(0.05) ? 0 : 1 + rng.Below(rng.Chance(0.2) ? 150 : 20));
    }
    const auto [m, n, k] = sizes;
    const bool ta = rng.Chance(0.5), tb = rng.Chance(0.5);
    const Tensor a = Draw(ta ? Shape{k, m} : Shape{m, k}, seed);
    const Tensor b = Draw(tb ? Shape{n, k} : Shape{k, n}, seed + 1000);
    const Tensor bias = Draw({n}, seed + 2000);
    const ops::MatMul product(ta, tb);
    const ops::Dense dense(ta, tb, kActivations[seed % 4]);
    const bool empty = m == 0 || n == 0 || k == 0;
    EXPECT_NE(Compare(product, {a, b}, Describe(product, {a, b}), 2e-5), empty);
    EXPECT_NE(Compare(dense, {a, b, bias}, Describe(dense, {a, b, bias}), 2e-5), empty);
  }
}

TEST(CpuTableTest, TwoThreadsAgreeWithOne) {
  const ops::Dense dense(false, false, ops::Activation::kRelu);
  const std::vector<Tensor> inputs = {Draw({128, 200}, 1), Draw({200, 300}, 2), Draw({300}, 3)};
  ExpectNear(RunKernel(Table(), dense, inputs, {}, 2), RunKernel(Table(), dense, inputs), 2e-5,
             "two threads");
}

// Kernels of equal shape share code that oneDNN generated.
TEST(CpuTableTest, DistinctKernelsRunAtTheSameTime) {
  const ops::Dense dense(false, false, ops::Activation::kTanh);
  const std::vector<Tensor> inputs = {Draw({64, 100}, 1), Draw({100, 60}, 2), Draw({60}, 3)};
  const auto expected = RunKernel(Table(), dense, inputs);
  std::vector<std::vector<Tensor>> results(200);
  const auto run_some = [&](size_t first) {
    for (size_t i = first; i < results.size(); i += 2) results[i] = RunKernel(Table(), dense, inputs);
  };
  std::thread other(run_some, 1);
  run_some(0);
  other.join();
  for (const auto& result : results) ExpectNear(result, expected, 0, "at the same time");
}

// NaN features must show in the gradients, although relu turns NaN into 0.
TEST(CpuTableTest, NotANumberReachesTheGradientByTheWeights) {
  std::vector<Tensor> x_dy = {Draw({16, 8}, 1), Tensor(DType::kF32, {16, 8})};
  x_dy[0].as<float>()[5] = NAN;
  const auto dw = RunKernel(Table(), ops::MatMul(true, false), x_dy);
  ASSERT_EQ(dw.size(), 1u);
  EXPECT_TRUE(std::isnan(dw[0].as<float>()[5 * 8]));
}

}  // namespace
}  // namespace leat::cpu

#include "kernels/reference/reference.h"

#include <cmath>

#include "kernels/reference/kernels.h"
#include "kernels/reference/widen.h"

namespace leat::reference {
namespace {

float Sigmoid(float x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

float SigmoidCrossEntropy(float x, float t) {
  return std::max(x, 0.0f) - x * t + std::log1p(std::exp(-std::abs(x)));
}

graph::KernelTable Build() {
  graph::KernelTable table{.backend = "reference",
                           .factories = {
                               {"abs", Unary([](float x) { return std::abs(x); })},
                               {"add", Binary([](float a, float b) { return a + b; })},
                               {"add_n", AddNKernel},
                               {"batch_matmul", Widened(BatchMatMulKernel)},
                               {"bias_add", BiasAddKernel},
                               {"broadcast_to", BroadcastToKernel},
                               {"cast", CastKernel},
                               {"concat", ConcatKernel},
                               {"dense", Widened(DenseKernel)},
                               {"div", Binary([](float a, float b) { return a / b; })},
                               {"exp", Unary([](float x) { return std::exp(x); })},
                               {"log", Unary([](float x) { return std::log(x); })},
                               {"log_softmax", LogSoftmaxKernel},
                               {"matmul", Widened(MatMulKernel)},
                               {"mul", Binary([](float a, float b) { return a * b; })},
                               {"neg", Unary([](float x) { return -x; })},
                               {"pad", PadKernel},
                               {"reduce_mean", ReduceMeanKernel},
                               {"reduce_sum", ReduceSumKernel},
                               // max(x, 0) that lets NaN through, so that a poisoned batch is noticed.
                               {"relu", Unary([](float x) { return x < 0 ? 0 : x; })},
                               {"relu_grad", Binary([](float y, float dy) { return y > 0 ? dy : 0; })},
                               {"scale", ScaleKernel},
                               {"sigmoid", Unary(Sigmoid)},
                               {"sigmoid_cross_entropy", Binary(SigmoidCrossEntropy)},
                               {"sigmoid_grad", Binary([](float y, float dy) { return dy * y * (1 - y); })},
                               {"sign", Unary([](float x) { return static_cast<float>((x > 0) - (x < 0)); })},
                               {"slice", SliceKernel},
                               {"softmax", SoftmaxKernel},
                               {"softmax_cross_entropy", SoftmaxCrossEntropyKernel},
                               {"softmax_cross_entropy_grad", SoftmaxCrossEntropyGradKernel},
                               {"softmax_grad", SoftmaxGradKernel},
                               {"sqrt", Unary([](float x) { return std::sqrt(x); })},
                               {"square", Unary([](float x) { return x * x; })},
                               {"squared_error", Binary([](float p, float t) { return (p - t) * (p - t); })},
                               {"sub", Binary([](float a, float b) { return a - b; })},
                               {"sum_to", SumToKernel},
                               {"tanh", Unary([](float x) { return std::tanh(x); })},
                               {"tanh_grad", Binary([](float y, float dy) { return dy * (1 - y * y); })},
                               {"transpose", TransposeKernel},
                           }};
  AddElementwise(table);
  AddShape(table);
  AddLoss(table);
  AddIndex(table);
  AddConvolution(table);
  AddPool(table);
  AddNormalize(table);
  AddEmbedding(table);
  AddRecurrent(table);
  AddAttention(table);
  return table;
}

}  // namespace

const graph::KernelTable& Kernels() {
  static const graph::KernelTable table = Build();
  return table;
}

}  // namespace leat::reference

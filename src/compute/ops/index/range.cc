#include "compute/ops/index/range.h"

#include <stdexcept>

namespace leat::ops {
namespace {

template <class T>
void Fill(std::span<T> elements, int64_t start, int64_t step) {
  auto x = static_cast<uint64_t>(start);
  for (T& element : elements) {
    element = static_cast<T>(static_cast<int64_t>(x));
    x += static_cast<uint64_t>(step);
  }
}

}  // namespace

Value Range(Graph& graph, int64_t start, int64_t count, int64_t step, DType type) {
  const Shape shape{count};
  switch (type) {
    case DType::kI32: {
      Tensor tensor(type, shape);
      Fill(tensor.as<int32_t>(), start, step);
      return graph.Make<Constant>({}, std::move(tensor));
    }
    case DType::kI64: {
      Tensor tensor(type, shape);
      Fill(tensor.as<int64_t>(), start, step);
      return graph.Make<Constant>({}, std::move(tensor));
    }
    case DType::kF32: {
      Tensor tensor(type, shape);
      Fill(tensor.as<float>(), start, step);
      return graph.Make<Constant>({}, std::move(tensor));
    }
    case DType::kU8:
    case DType::kBf16:
      break;
  }
  throw std::invalid_argument("the range type is " + std::string(Name(type)) + "; must be i32, i64 or f32");
}

}  // namespace leat::ops

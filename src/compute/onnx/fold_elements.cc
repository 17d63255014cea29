#include "compute/onnx/fold_elements.h"

#include <limits>
#include <string>
#include <type_traits>

#include "compute/onnx/attributes.h"
#include "compute/ops/shape/broadcast.h"
#include "compute/tensor/convert.h"

namespace leat::onnx {
namespace {

template <class F>
void WithType(DType type, F f) {
  switch (type) {
    case DType::kF32:
      return f(float{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU8:
      return f(uint8_t{});
    case DType::kBf16:
      break;
  }
  Fail("bf16 constants are not supported");
}

}  // namespace

void CheckCount(const Shape& shape) {
  if (shape.elements() > kMaxFolded) {
    Fail("computes a constant " + shape.ToString() + "; at most " + std::to_string(kMaxFolded) +
         " elements are supported");
  }
}

Elements MakeElements(DType type, const Shape& shape) {
  CheckCount(shape);
  Elements made{.type = type, .shape = shape, .whole = {}, .real = {}};
  if (made.is_real()) {
    made.real.resize(made.count());
  } else {
    made.whole.resize(made.count());
  }
  return made;
}

Elements ReadElements(const Tensor& tensor) {
  Elements made = MakeElements(tensor.dtype(), tensor.shape());
  WithType(tensor.dtype(), [&](auto zero) {
    const auto from = tensor.as<decltype(zero)>();
    for (size_t i = 0; i < from.size(); ++i) {
      if constexpr (std::is_same_v<decltype(zero), float>) {
        made.real[i] = from[i];
      } else {
        made.whole[i] = from[i];
      }
    }
  });
  return made;
}

Tensor ToTensor(const Elements& from) {
  Tensor tensor(from.type, from.shape);
  WithType(from.type, [&](auto zero) {
    using T = decltype(zero);
    const auto to = tensor.as<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      if constexpr (std::is_same_v<T, float>) {
        to[i] = static_cast<float>(from.real[i]);
      } else {
        if (from.whole[i] < int64_t{std::numeric_limits<T>::min()} ||
            from.whole[i] > int64_t{std::numeric_limits<T>::max()}) {
          Fail(std::to_string(from.whole[i]) + " does not fit " + std::string(Name(from.type)));
        }
        to[i] = static_cast<T>(from.whole[i]);
      }
    }
  });
  return tensor;
}

Tensor Converted(const Tensor& from, DType to, bool to_bool) {
  CheckCount(from.shape());
  Tensor made(to, from.shape());
  WithType(from.dtype(), [&](auto a) {
    WithType(to, [&](auto b) {
      const auto in = from.as<decltype(a)>();
      const auto out = made.as<decltype(b)>();
      for (size_t i = 0; i < in.size(); ++i) {
        out[i] = to_bool ? static_cast<decltype(b)>(in[i] != 0) : ConvertTo<decltype(b)>(in[i]);
      }
    });
  });
  return made;
}

Elements Stretch(const Elements& from, const Shape& shape) {
  Elements made = MakeElements(from.type, shape);
  const auto strides = ops::BroadcastStrides(from.shape, shape);
  Walk(shape, strides, 0, [&](size_t i, size_t at) { CopyElement(from, at, &made, i); });
  return made;
}

void CopyElement(const Elements& a, size_t from, Elements* b, size_t to) {
  if (a.is_real()) {
    b->real[to] = a.real[from];
  } else {
    b->whole[to] = a.whole[from];
  }
}

void Walk(const Shape& shape, std::span<const int64_t> strides, int64_t begin,
          const std::function<void(size_t, size_t)>& f) {
  const auto count = static_cast<size_t>(shape.elements());
  std::vector<int64_t> at(shape.rank());
  int64_t offset = begin;
  for (size_t i = 0; i < count; ++i) {
    f(i, static_cast<size_t>(offset));
    for (size_t axis = shape.rank(); axis-- > 0;) {
      offset += strides[axis];
      if (++at[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      at[axis] = 0;
    }
  }
}

std::vector<int64_t> StridesOf(const Shape& shape) {
  std::vector<int64_t> strides(shape.rank(), 1);
  for (size_t axis = shape.rank(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

}  // namespace leat::onnx

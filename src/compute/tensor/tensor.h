// A dense, row-major tensor: an element type, a shape, and memory that it shares or borrows.
//
// Copying a Tensor copies the handle, not the elements. Several tensors may share memory; a writer must make
// sure that no other thread uses that memory at the same time.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "compute/tensor/buffer.h"
#include "compute/tensor/dtype.h"
#include "compute/tensor/shape.h"

namespace leat {

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  size_t bytes() const { return static_cast<size_t>(shape.elements()) * SizeOf(dtype); }
  // "f32[128, 784]"
  std::string ToString() const { return std::string(Name(dtype)) + shape.ToString(); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

class Tensor {
 public:
  Tensor() = default;
  // Owns zeroed memory.
  explicit Tensor(TensorType type) : type_(std::move(type)), buffer_(type_.bytes()), data_(buffer_.data()) {}
  Tensor(DType dtype, Shape shape) : Tensor(TensorType{dtype, shape}) {}
  // Borrows memory, which the caller keeps alive.
  Tensor(TensorType type, void* data) : type_(std::move(type)), data_(static_cast<std::byte*>(data)) {}

  // Copies `values`, whose number must match the shape.
  template <class T>
  static Tensor Of(Shape shape, std::span<const T> values) {
    LEAT_CHECK(static_cast<size_t>(shape.elements()) == values.size());
    Tensor t(DTypeOf<T>::value, shape);
    if (!values.empty()) std::memcpy(t.data_, values.data(), values.size_bytes());
    return t;
  }

  const TensorType& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  size_t elements() const { return static_cast<size_t>(type_.shape.elements()); }
  size_t bytes() const { return type_.bytes(); }
  std::byte* raw() const { return data_; }

  // The elements. T must match dtype().
  template <class T>
  std::span<T> as() const {
    LEAT_CHECK(DTypeOf<std::remove_const_t<T>>::value == type_.dtype);
    return {reinterpret_cast<T*>(data_), elements()};
  }

 private:
  TensorType type_;
  Buffer buffer_;
  std::byte* data_ = nullptr;
};

}  // namespace leat

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/multiversion.h"
#include "compute/kernels/cpu/inline.h"
#include "compute/kernels/cpu/kernels.h"
#include "compute/ops/shape/shape.h"
#include "compute/tensor/dtype.h"

namespace leat::cpu {
namespace {

LEAT_MULTIVERSION
void CastU8(const uint8_t* x, float* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]);
}

LEAT_MULTIVERSION
void CastI32(const int32_t* __restrict x, float* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]);
}

LEAT_MULTIVERSION
void CastI64(const int64_t* __restrict x, float* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]);
}

LEAT_MULTIVERSION
void CastBf16(const Bf16* __restrict x, float* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = ToFloat(x[i]);
}

LEAT_MULTIVERSION
void CastToBf16(const float* __restrict x, Bf16* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    // ToBf16 without its branch.
    const auto bits = std::bit_cast<uint32_t>(x[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40u;
    y[i].bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

LEAT_MULTIVERSION
void CastToI32(const float* __restrict x, int32_t* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float v = x[i];
    // The clamped value always fits; limits and NaN are handled below.
    const float inside = v > -2147483648.0f ? (v < 2147483520.0f ? v : 2147483520.0f) : -2147483648.0f;
    const auto whole = static_cast<int32_t>(inside);
    y[i] = v >= 2147483648.0f ? INT32_MAX : (v == v ? whole : 0);
  }
}

// Transposes two axes in square tiles, for cache locality: x is contiguous along `rows`, y along `columns`.
template <class T>
LEAT_INLINE void CopyTiles(const T* __restrict x, T* __restrict y, const std::array<size_t, 2>& sizes,
                           ptrdiff_t x_step, ptrdiff_t y_step) {
  constexpr size_t kTile = 16;
  const auto [rows, columns] = sizes;
  for (size_t r = 0; r < rows; r += kTile) {
    const size_t r_end = std::min(r + kTile, rows);
    for (size_t c = 0; c < columns; c += kTile) {
      const size_t c_end = std::min(c + kTile, columns);
      for (size_t i = r; i < r_end; ++i) {
        const T* from = x + static_cast<ptrdiff_t>(i);
        T* to = y + static_cast<ptrdiff_t>(i) * y_step;
        for (size_t j = c; j < c_end; ++j) to[j] = from[static_cast<ptrdiff_t>(j) * x_step];
      }
    }
  }
}

template <class T>
LEAT_INLINE void CopyStrided(const T* __restrict x, T* __restrict y, const std::array<size_t, 2>& sizes,
                             const std::array<ptrdiff_t, 2>& from, const std::array<ptrdiff_t, 2>& to) {
  for (size_t i = 0; i < sizes[0]; ++i, x += from[0], y += to[0]) {
    for (ptrdiff_t j = 0; j < static_cast<ptrdiff_t>(sizes[1]); ++j) y[j * to[1]] = x[j * from[1]];
  }
}

LEAT_MULTIVERSION
void CopyTiles32(const uint32_t* x, uint32_t* y, const std::array<size_t, 2>& sizes, ptrdiff_t x_step,
                 ptrdiff_t y_step) {
  CopyTiles(x, y, sizes, x_step, y_step);
}

// y[Σ i to] = x[Σ i from] for every index i below `sizes`: transposes, slices and pads. Copies elements of
// any type as bytes; the last two axes are loops, the others counters.
class Copy {
 public:
  // Offsets and strides in elements of `width` bytes.
  Copy(size_t width, std::span<const int64_t> sizes, std::span<const int64_t> from,
       std::span<const int64_t> to, int64_t x_offset = 0, int64_t y_offset = 0)
      : width_(width),
        x_offset_(static_cast<ptrdiff_t>(x_offset) * static_cast<ptrdiff_t>(width)),
        y_offset_(static_cast<ptrdiff_t>(y_offset) * static_cast<ptrdiff_t>(width)) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      empty_ = empty_ || sizes[i] == 0;
      if (sizes[i] == 1) continue;
      const Axis axis{static_cast<size_t>(sizes[i]), static_cast<ptrdiff_t>(from[i]),
                      static_cast<ptrdiff_t>(to[i])};
      const auto n = static_cast<ptrdiff_t>(axis.size);
      if (!axes_.empty() && axes_.back().from == axis.from * n && axes_.back().to == axis.to * n) {
        axes_.back() = {axes_.back().size * axis.size, axis.from, axis.to};
      } else {
        axes_.push_back(axis);
      }
    }
    while (axes_.size() < 2) axes_.insert(axes_.begin(), axes_.empty() ? Axis{1, 1, 1} : Axis{1, 0, 0});
    // For tiles, the axis along which x is contiguous comes second to last.
    const auto dense = std::ranges::find_if(axes_, [](const Axis& a) { return a.from == 1; });
    tiles_ = axes_.back().from != 1 && axes_.back().to == 1 && dense != axes_.end();
    if (tiles_) std::rotate(dense, dense + 1, axes_.end() - 1);
    const Axis &outer = axes_[axes_.size() - 2], &inner = axes_.back();
    sizes_ = {outer.size, inner.size};
    from_ = {outer.from, inner.from};
    to_ = {outer.to, inner.to};
    axes_.resize(axes_.size() - 2);
  }

  void Run(const std::byte* x, std::byte* y) const {
    if (empty_) return;
    x += x_offset_;
    y += y_offset_;
    std::array<size_t, Shape::kMaxRank> at{};
    for (;;) {
      RunInner(x, y);
      size_t axis = axes_.size();
      for (; axis > 0; --axis) {
        const Axis& a = axes_[axis - 1];
        const auto width = static_cast<ptrdiff_t>(width_), back = static_cast<ptrdiff_t>(a.size);
        x += a.from * width;
        y += a.to * width;
        if (++at[axis - 1] < a.size) break;
        at[axis - 1] = 0;
        x -= back * a.from * width;
        y -= back * a.to * width;
      }
      if (axis == 0) return;
    }
  }

 private:
  struct Axis {
    size_t size;
    ptrdiff_t from, to;
  };
  // Shorter runs are copied faster element by element.
  static constexpr size_t kShortRun = 32;

  void RunInner(const std::byte* x, std::byte* y) const {
    const size_t run = sizes_[1] * width_;
    if (from_[1] == 1 && to_[1] == 1 && run >= kShortRun) {
      const auto width = static_cast<ptrdiff_t>(width_);
      for (size_t i = 0; i < sizes_[0]; ++i, x += from_[0] * width, y += to_[0] * width)
        std::memcpy(y, x, run);
      return;
    }
    switch (width_) {
      case 1:
        return RunElements<uint8_t>(x, y);
      case 2:
        return RunElements<uint16_t>(x, y);
      case 4:
        return RunElements<uint32_t>(x, y);
      default:
        return RunElements<uint64_t>(x, y);
    }
  }

  template <class T>
  void RunElements(const std::byte* x, std::byte* y) const {
    const T* from = reinterpret_cast<const T*>(x);
    T* to = reinterpret_cast<T*>(y);
    if (!tiles_) return CopyStrided(from, to, sizes_, from_, to_);
    if constexpr (sizeof(T) == 4) return CopyTiles32(from, to, sizes_, from_[1], to_[0]);
    CopyTiles(from, to, sizes_, from_[1], to_[0]);
  }

  size_t width_;
  ptrdiff_t x_offset_, y_offset_;
  bool empty_ = false, tiles_ = false;
  std::vector<Axis> axes_;  // but the last two
  std::array<size_t, 2> sizes_{};
  std::array<ptrdiff_t, 2> from_{}, to_{};
};

// CopyOfPartOut copies a contiguous tensor from a box of `whole` that begins at `offset`; CopyOfPartIn copies
// it into the box.
Copy CopyOfPartOut(DType type, const Shape& part, const Shape& whole, int64_t offset) {
  return Copy(SizeOf(type), part.sizes(), ops::StridesOf(whole), ops::StridesOf(part), offset, 0);
}
Copy CopyOfPartIn(DType type, const Shape& part, const Shape& whole, int64_t offset) {
  return Copy(SizeOf(type), part.sizes(), ops::StridesOf(part), ops::StridesOf(whole), 0, offset);
}

template <class T>
void FillWith(std::byte* y, size_t n, float value) {
  std::fill_n(reinterpret_cast<T*>(y), n, ConvertTo<T>(value));
}

void Fill(DType type, std::byte* y, size_t n, float value) {
  switch (type) {
    case DType::kF32:
      return FillWith<float>(y, n, value);
    case DType::kI32:
      return FillWith<int32_t>(y, n, value);
    case DType::kI64:
      return FillWith<int64_t>(y, n, value);
    case DType::kU8:
      return FillWith<uint8_t>(y, n, value);
    case DType::kBf16:
      return FillWith<Bf16>(y, n, value);
  }
}

// y[outer, repeated, inner] from x[outer, inner].
void Repeat(const float* x, float* y, size_t outer, size_t repeated, size_t inner) {
  for (size_t o = 0; o < outer; ++o, x += inner) {
    if (inner == 1) {
      std::fill(y, y + repeated, *x);
      y += repeated;
      continue;
    }
    for (size_t r = 0; r < repeated; ++r, y += inner) std::memcpy(y, x, inner * sizeof(float));
  }
}

template <class X, class Y, void (*kLoop)(const X*, Y*, size_t)>
KernelPtr CastBy(size_t n) {
  return Loop([n](const KernelArgs& args) {
    kLoop(reinterpret_cast<const X*>(args.inputs[0]), reinterpret_cast<Y*>(args.outputs[0]), n);
  });
}

KernelPtr MakeCast(const KernelRequest& request) {
  const size_t n = Elements(request.outputs[0]);
  const DType from = request.inputs[0].dtype, to = request.outputs[0].dtype;
  if (from == DType::kF32 && to == DType::kBf16) return CastBy<float, Bf16, CastToBf16>(n);
  if (from == DType::kF32 && to == DType::kI32) return CastBy<float, int32_t, CastToI32>(n);
  if (to != DType::kF32) return nullptr;
  switch (from) {
    case DType::kU8:
      return CastBy<uint8_t, float, CastU8>(n);
    case DType::kI32:
      return CastBy<int32_t, float, CastI32>(n);
    case DType::kI64:
      return CastBy<int64_t, float, CastI64>(n);
    case DType::kBf16:
      return CastBy<Bf16, float, CastBf16>(n);
    case DType::kF32:
      break;
  }
  return nullptr;
}

KernelPtr MakeTranspose(const KernelRequest& request) {
  const auto& permutation = static_cast<const ops::Transpose&>(request.op).permutation;
  const auto strides = ops::StridesOf(request.inputs[0].shape);
  std::vector<int64_t> from;
  for (int axis : permutation) from.push_back(strides[static_cast<size_t>(axis)]);
  const Shape& y = request.outputs[0].shape;
  const Copy copy(SizeOf(request.outputs[0].dtype), y.sizes(), from, ops::StridesOf(y));
  return Loop([copy](const KernelArgs& args) { copy.Run(args.inputs[0], args.outputs[0]); });
}

KernelPtr MakeSlice(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Slice&>(request.op);
  const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
  const Copy copy(SizeOf(request.outputs[0].dtype), y.sizes(), ops::Stepped(ops::StridesOf(x), op.step),
                  ops::StridesOf(y), ops::OffsetOf(x, op.begin));
  return Loop([copy](const KernelArgs& args) { copy.Run(args.inputs[0], args.outputs[0]); });
}

KernelPtr MakeSliceGrad(const KernelRequest& request) {
  const auto& op = static_cast<const ops::SliceGrad&>(request.op);
  const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
  const Copy copy(sizeof(float), x.sizes(), ops::StridesOf(x), ops::Stepped(ops::StridesOf(y), op.step), 0,
                  ops::OffsetOf(y, op.begin));
  return Loop([copy, n = Elements(request.outputs[0])](const KernelArgs& args) {
    std::fill_n(Out(args, 0), n, 0.0f);
    copy.Run(args.inputs[0], args.outputs[0]);
  });
}

KernelPtr MakePad(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Pad&>(request.op);
  if (op.mode != ops::PadMode::kConstant) return nullptr;
  const DType type = request.outputs[0].dtype;
  const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
  return Loop([copy = CopyOfPartIn(type, x, y, ops::OffsetOf(y, op.before)), type, value = op.value,
               n = Elements(request.outputs[0])](const KernelArgs& args) {
    Fill(type, args.outputs[0], n, value);
    copy.Run(args.inputs[0], args.outputs[0]);
  });
}

// Copies between a tensor and each of the parts that it is joined of along an axis.
std::vector<Copy> CopiesOfParts(const Shape& whole, int axis, std::span<const TensorType> parts,
                                Copy (*copy)(DType, const Shape&, const Shape&, int64_t)) {
  const size_t along = ops::AxisOf(axis, whole.rank());
  const int64_t stride = ops::StridesOf(whole)[along];
  std::vector<Copy> copies;
  int64_t begin = 0;
  for (const TensorType& type : parts) {
    copies.push_back(copy(type.dtype, type.shape, whole, begin * stride));
    begin += type.shape[along];
  }
  return copies;
}

KernelPtr MakeConcat(const KernelRequest& request) {
  const int axis = static_cast<const ops::Concat&>(request.op).axis;
  return Loop([parts = CopiesOfParts(request.outputs[0].shape, axis, request.inputs, CopyOfPartIn)](
                  const KernelArgs& args) {
    for (size_t i = 0; i < parts.size(); ++i) parts[i].Run(args.inputs[i], args.outputs[0]);
  });
}

KernelPtr MakeSplit(const KernelRequest& request) {
  const int axis = static_cast<const ops::Split&>(request.op).axis;
  return Loop([parts = CopiesOfParts(request.inputs[0].shape, axis, request.outputs, CopyOfPartOut)](
                  const KernelArgs& args) {
    for (size_t i = 0; i < parts.size(); ++i) parts[i].Run(args.inputs[0], args.outputs[i]);
  });
}

KernelPtr MakeBroadcastTo(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  if (request.outputs[0].dtype != DType::kF32) return nullptr;
  if (y.elements() == 0) return Loop([](const KernelArgs&) {});
  std::vector<unsigned> moves;
  for (const int64_t stride : ops::BroadcastStrides(request.inputs[0].shape, y)) {
    moves.push_back(stride != 0 ? 1 : 0);
  }
  std::vector<AxisGroup> groups = Collapse(y.sizes(), moves);
  // If the outermost axis is repeated, copy the rest as a whole.
  size_t copies = 1;
  if (groups.size() > 2 && groups.front().moves == 0) {
    copies = groups.front().size;
    groups.erase(groups.begin());
  }
  if (groups.empty() || groups.front().moves == 0) groups.insert(groups.begin(), {1, 1});
  if (groups.size() == 1) groups.push_back({1, 0});
  if (groups.size() == 2) groups.push_back({1, 1});
  if (groups.size() > 3) return nullptr;
  const size_t outer = groups[0].size, repeated = groups[1].size, inner = groups[2].size;
  return Loop([=](const KernelArgs& args) {
    float* out = Out(args, 0);
    const size_t n = outer * repeated * inner;
    Repeat(In(args, 0), out, outer, repeated, inner);
    for (size_t i = 1; i < copies; ++i) std::memcpy(out + i * n, out, n * sizeof(float));
  });
}

}  // namespace

void AddMove(graph::KernelTable& table) {
  table.Add("broadcast_to", MakeBroadcastTo);
  table.Add("cast", MakeCast);
  table.Add("concat", MakeConcat);
  table.Add("pad", MakePad);
  table.Add("slice", MakeSlice);
  table.Add("split", MakeSplit);
  table.Add("slice_grad", MakeSliceGrad);
  table.Add("transpose", MakeTranspose);
}

}  // namespace leat::cpu

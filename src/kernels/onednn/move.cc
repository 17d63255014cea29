#include <algorithm>
#include <bit>
#include <cstring>

#include "base/multiversion.h"
#include "kernels/onednn/kernels.h"
#include "ops/shape/broadcast.h"
#include "ops/shape/transpose.h"
#include "tensor/bf16.h"

namespace leat::onednn {
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
    // The clamped value fits, whatever v is; what is at an end or NaN is chosen afterwards.
    const float inside = v > -2147483648.0f ? (v < 2147483520.0f ? v : 2147483520.0f) : -2147483648.0f;
    const auto whole = static_cast<int32_t>(inside);
    y[i] = v >= 2147483648.0f ? INT32_MAX : (v == v ? whole : 0);
  }
}

// Square tiles, so that neither side jumps through memory for long.
LEAT_MULTIVERSION
void TransposeMatrix(const float* __restrict x, float* __restrict y, size_t rows, size_t columns) {
  constexpr size_t kTile = 16;
  for (size_t r = 0; r < rows; r += kTile) {
    const size_t r_end = std::min(r + kTile, rows);
    for (size_t c = 0; c < columns; c += kTile) {
      const size_t c_end = std::min(c + kTile, columns);
      for (size_t j = c; j < c_end; ++j) {
        for (size_t i = r; i < r_end; ++i) y[j * rows + i] = x[i * columns + j];
      }
    }
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

KernelPtr FromF32(DType to, size_t n) {
  if (to == DType::kBf16) {
    return Loop([=](const KernelArgs& args) {
      CastToBf16(In(args, 0), reinterpret_cast<Bf16*>(args.outputs[0]), n);
    });
  }
  if (to == DType::kI32) {
    return Loop([=](const KernelArgs& args) {
      CastToI32(In(args, 0), reinterpret_cast<int32_t*>(args.outputs[0]), n);
    });
  }
  return nullptr;
}

}  // namespace

KernelPtr MakeCast(const KernelRequest& request) {
  const size_t n = Elements(request.outputs[0]);
  if (request.inputs[0].dtype != DType::kF32 && request.outputs[0].dtype != DType::kF32) return nullptr;
  switch (request.inputs[0].dtype) {
    case DType::kU8:
      return Loop([=](const KernelArgs& args) {
        CastU8(reinterpret_cast<const uint8_t*>(args.inputs[0]), Out(args, 0), n);
      });
    case DType::kI32:
      return Loop([=](const KernelArgs& args) {
        CastI32(reinterpret_cast<const int32_t*>(args.inputs[0]), Out(args, 0), n);
      });
    case DType::kI64:
      return Loop([=](const KernelArgs& args) {
        CastI64(reinterpret_cast<const int64_t*>(args.inputs[0]), Out(args, 0), n);
      });
    case DType::kF32:
      return FromF32(request.outputs[0].dtype, n);
    case DType::kBf16:
      return Loop([=](const KernelArgs& args) {
        CastBf16(reinterpret_cast<const Bf16*>(args.inputs[0]), Out(args, 0), n);
      });
  }
  return nullptr;
}

KernelPtr MakeTranspose(const KernelRequest& request) {
  const auto& permutation = static_cast<const ops::Transpose&>(request.op).permutation;
  if (permutation != std::vector<int>{1, 0} || request.inputs[0].dtype != DType::kF32) return nullptr;
  const auto rows = static_cast<size_t>(request.inputs[0].shape[0]);
  const auto columns = static_cast<size_t>(request.inputs[0].shape[1]);
  return Loop([=](const KernelArgs& args) { TransposeMatrix(In(args, 0), Out(args, 0), rows, columns); });
}

KernelPtr MakeBroadcastTo(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  if (request.outputs[0].dtype != DType::kF32) return nullptr;
  if (y.elements() == 0) return Loop([](const KernelArgs&) {});
  std::vector<unsigned> moves;
  for (const int64_t stride : ops::BroadcastStrides(request.inputs[0].shape, y)) {
    moves.push_back(stride != 0 ? 1 : 0);
  }
  std::vector<Group> groups = Collapse(y.sizes(), moves);
  // What is repeated outermost of all is copied whole.
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

}  // namespace leat::onednn

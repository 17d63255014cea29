// Repeated products of a few rows by the same matrix. The matrix is packed into panels once, and each result
// is processed while it is in registers or the L1 cache. For recurrent loops, whose products are too small
// for a oneDNN primitive each.
//
// Everything here is inlined into LEAT_MULTIVERSION functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "compute/kernels/cpu/inline.h"

namespace leat::cpu {

constexpr size_t kLanes = 16;

// Sixteen floats; compilers split them if registers are shorter.
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

// Maximal number of rows per pass: the sums, N vectors per row, must fit the widest register file. RowsAtOnce
// is the number for this machine.
template <size_t N>
constexpr size_t kMaxRows = std::min<size_t>(8, 24 / N);
template <size_t N>
size_t RowsAtOnce() {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool wide = __builtin_cpu_supports("avx512f");
  if (wide) return kMaxRows<N>;
#endif
  return std::max<size_t>(1, 6 / N);
}

inline size_t PanelCount(size_t columns, size_t width) {
  return (columns + width - 1) / width;
}

// sums += a[R, k] · panel[k, N · kLanes]
template <size_t R, size_t N>
LEAT_INLINE void Accumulate(Lanes (&sums)[R][N], const float* a, size_t a_stride, const float* panel,
                            size_t k) {
  for (size_t i = 0; i < k; ++i, panel += N * kLanes) {
    Lanes w[N];
#pragma GCC unroll 8
    for (size_t n = 0; n < N; ++n) w[n] = *reinterpret_cast<const Lanes*>(panel + n * kLanes);
#pragma GCC unroll 24
    for (size_t r = 0; r < R; ++r) {
      const float x = a[r * a_stride + i];
#pragma GCC unroll 8
      for (size_t n = 0; n < N; ++n) sums[r][n] += w[n] * x;
    }
  }
}

// Calls f(first row, rows as a constant) for `rows` rows in nearly equal parts of at most `at_once`.
template <size_t R>
struct RowCount {
  static constexpr size_t value = R;
};
template <size_t Most, class F, class Then>
LEAT_INLINE void InParts(size_t rows, size_t at_once, F f, Then then) {
  size_t parts = (rows + at_once - 1) / at_once;
  for (size_t row = 0; row < rows; --parts) {
    const size_t count = (rows - row + parts - 1) / parts;
    [&]<size_t... R>(std::index_sequence<R...>) LEAT_INLINE_LAMBDA {
      ((count == R + 1 ? f(row, RowCount<R + 1>()) : void()), ...);
    }
    (std::make_index_sequence<Most>());
    then(row, count);
    row += count;
  }
}

// For each panel p of [k, N · kLanes]: finish(row, p, sums of that row [N · kLanes]). The call is compiled
// once, and not once for each number of rows: with a cell's arithmetic in it, that is most of the code.
template <size_t N, class F>
LEAT_INLINE void MultiplyThen(const float* a, size_t rows, size_t k, size_t a_stride, const float* panels,
                              size_t panel_stride, size_t count, F finish) {
  const size_t at_once = RowsAtOnce<N>();
  alignas(64) float numbers[kMaxRows<N>][N * kLanes];
  for (size_t p = 0; p < count; ++p) {
    InParts<kMaxRows<N>>(
        rows, at_once,
        [&](size_t row, auto part) LEAT_INLINE_LAMBDA {
          constexpr size_t kRows = decltype(part)::value;
          Lanes sums[kRows][N] = {};
          Accumulate(sums, a + row * a_stride, a_stride, panels + p * panel_stride, k);
#pragma GCC unroll 8
          for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
            for (size_t n = 0; n < N; ++n) *reinterpret_cast<Lanes*>(numbers[r] + n * kLanes) = sums[r][n];
          }
        },
        [&](size_t row, size_t part) LEAT_INLINE_LAMBDA {
          for (size_t r = 0; r < part; ++r) finish(row + r, p, numbers[r]);
        });
  }
}

// y[rows, columns] += a[rows, k] · panels; `columns` includes the panels' padding.
LEAT_INLINE void MultiplyAdd(const float* a, size_t rows, size_t k, size_t a_stride, const float* panels,
                             size_t columns, float* y) {
  // Rows of a panel that fit the L1 cache.
  constexpr size_t kMaxK = 128, kWidth = 4 * kLanes;
  const size_t at_once = RowsAtOnce<4>();
  for (size_t p = 0; p < columns / kWidth; ++p) {
    for (size_t i = 0; i < k; i += kMaxK) {
      const float* panel = panels + (p * k + i) * kWidth;
      const auto multiply = [&](size_t row, auto part) LEAT_INLINE_LAMBDA {
        constexpr size_t kRows = decltype(part)::value;
        float* to = y + row * columns + p * kWidth;
        Lanes sums[kRows][4];
#pragma GCC unroll 8
        for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
          for (size_t n = 0; n < 4; ++n) {
            sums[r][n] = *reinterpret_cast<const Lanes*>(to + r * columns + n * kLanes);
          }
        }
        Accumulate(sums, a + row * a_stride + i, a_stride, panel, std::min(kMaxK, k - i));
#pragma GCC unroll 8
        for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
          for (size_t n = 0; n < 4; ++n) {
            *reinterpret_cast<Lanes*>(to + r * columns + n * kLanes) = sums[r][n];
          }
        }
      };
      InParts<kMaxRows<4>>(rows, at_once, multiply, [](size_t, size_t) {});
    }
  }
}

// Packs each of the N equal parts of w[rows, N · part]: panel p has kLanes columns of each part side by side,
// padded with zeros.
template <size_t N>
LEAT_INLINE void PackParts(const float* w, size_t rows, size_t stride, size_t part, float* panels) {
  for (size_t begin = 0; begin < part; begin += kLanes) {
    const size_t lanes = std::min(kLanes, part - begin);
    for (size_t row = 0; row < rows; ++row, panels += N * kLanes) {
      for (size_t n = 0; n < N; ++n) {
        const float* from = w + row * stride + n * part + begin;
        float* to = panels + n * kLanes;
        std::copy(from, from + lanes, to);
        std::fill(to + lanes, to + kLanes, 0.0f);
      }
    }
  }
}

// Packs wᵀ, w[rows, k]: panel p has 4 kLanes rows of w as columns.
LEAT_INLINE void PackTransposed(const float* w, size_t rows, size_t k, size_t stride, float* panels) {
  constexpr size_t kWidth = 4 * kLanes;
  for (size_t begin = 0; begin < rows; begin += kWidth, panels += k * kWidth) {
    const size_t count = std::min(kWidth, rows - begin);
    // A few columns at a time, so that the destination stays in the L1 cache from row to row.
    for (size_t i = 0; i < k; i += kLanes) {
      const size_t end = std::min(i + kLanes, k);
      for (size_t r = 0; r < kWidth; ++r) {
        for (size_t j = i; j < end; ++j) {
          panels[j * kWidth + r] = r < count ? w[(begin + r) * stride + j] : 0.0f;
        }
      }
    }
  }
}

}  // namespace leat::cpu

// Helpers for the lists of test cases. Each family of ops has a cases.cc, which compute/ops/list.cc calls.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compute/ops/list.h"

namespace leat::ops {

inline SampleInput F32(Shape shape, float low = -2, float high = 2) {
  return {{DType::kF32, shape}, low, high, SampleInput::Draw::kUniform};
}
inline SampleInput AwayFromZero(Shape shape) {
  return {{DType::kF32, shape}, -2, 2, SampleInput::Draw::kAwayFromZero};
}
inline SampleInput Spread(Shape shape, float low, float high) {
  return {{DType::kF32, shape}, low, high, SampleInput::Draw::kSpread};
}
inline SampleInput Integers(DType type, Shape shape, float low, float high) {
  return {{type, shape}, low, high, SampleInput::Draw::kInteger};
}

template <class O, class... Args>
OpCase Case(std::string name, std::vector<SampleInput> inputs, Args&&... args) {
  return {std::move(name), std::make_shared<O>(std::forward<Args>(args)...), std::move(inputs), 2};
}

inline OpCase Derivatives(int count, OpCase c) {
  c.derivatives = count;
  return c;
}

using OpCaseList = std::vector<OpCase>;

void AddArithmeticCases(OpCaseList& cases);
void AddActivationCases(OpCaseList& cases);
void AddLogicCases(OpCaseList& cases);
void AddReductionCases(OpCaseList& cases);
void AddShapeCases(OpCaseList& cases);
void AddIndexCases(OpCaseList& cases);
void AddMatrixCases(OpCaseList& cases);
void AddLossCases(OpCaseList& cases);
void AddConvolutionCases(OpCaseList& cases);
void AddNormalizeCases(OpCaseList& cases);
void AddSequenceCases(OpCaseList& cases);

}  // namespace leat::ops

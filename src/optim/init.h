// What a variable starts from, as a pure function of seed, name and place.
//
// Whoever holds a part of a variable can initialise that part by itself, with the same result.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/shape.h"

namespace leat::optim {

enum class InitKind : uint8_t { kZeros = 0, kConstant = 1, kGlorotUniform = 2, kHeNormal = 3 };

struct InitSpec {
  InitKind kind = InitKind::kZeros;
  float value = 0;      // constant
  uint32_t fan_in = 1;  // glorot_uniform (Glorot and Bengio 2010), he_normal (He et al. 2015)
  uint32_t fan_out = 1;
  friend bool operator==(const InitSpec&, const InitSpec&) = default;
};

// How a variable changes.
enum class VariableRole : uint8_t {
  kTrained = 0,    // by its gradient, as the optimizer says
  kStatistic = 1,  // what is pushed is subtracted as it is: a running mean moves by shares of its distance
};

// A variable as servers and checkpoints know it: f32, row-major.
struct VariableSpec {
  std::string name;  // "dense1/weight"
  Shape shape;
  InitSpec init;
  VariableRole role = VariableRole::kTrained;
  friend bool operator==(const VariableSpec&, const VariableSpec&) = default;
};

// Writes the initial values of the elements [begin, begin + out.size()) of the variable.
void Initialise(const InitSpec& init, uint64_t seed, std::string_view variable, uint64_t begin,
                std::span<float> out);

}  // namespace leat::optim

// Initialisation of variables, as a pure function of seed, name and element index.
//
// So any process can initialise any part of a variable on its own, with the same result. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/tensor/shape.h"

namespace leat::optim {

enum class InitKind : uint8_t {
  kZeros = 0,
  kConstant = 1,       // value
  kGlorotUniform = 2,  // Glorot and Bengio 2010
  kHeNormal = 3,       // He et al. 2015
  kNormal = 4,         // mean 0, standard deviation `value`
  kUniform = 5,        // in [-value, value)
  kGiven = 6,          // the values in `given`, for imported networks
};

struct InitSpec {
  InitKind kind = InitKind::kZeros;
  float value = 0;
  uint32_t fan_in = 1;  // glorot_uniform, he_normal
  uint32_t fan_out = 1;
  std::shared_ptr<const std::vector<float>> given = nullptr;  // kGiven: one value per element
  friend bool operator==(const InitSpec& a, const InitSpec& b);
};

// How a variable is updated.
enum class VariableRole : uint8_t {
  kTrained = 0,    // by the optimizer, from its gradient
  kStatistic = 1,  // by subtracting the pushed value unchanged, as for the running mean of batch norm
  kMoments = 2,    // by merging the pushed moments (moments.h): words, not numbers. A job has at most one
};

// A variable as servers store it: f32, row-major.
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

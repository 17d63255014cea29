// Conventions shared by the golden files' generators and their tests.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "compute/tensor/tensor.h"

namespace leat::goldens {

// Reads a JSON file of this folder.
inline nlohmann::json Read(const std::string& name) {
  std::ifstream file(std::string(LEAT_GOLDENS) + "/" + name);
  if (!file) throw std::runtime_error("cannot read " + name);
  return nlohmann::json::parse(file);
}

// The i-th value of the scripts' fill(salt, count), in [-1, 1).
inline float Fill(uint32_t salt, uint32_t i) {
  uint32_t h = i * 2654435761u + salt * 40503u + 12345u;
  h ^= h >> 15;
  h *= 2246822519u;
  h ^= h >> 13;
  return static_cast<float>(static_cast<double>(h >> 8) / 8388608.0 - 1.0);
}

inline Shape ShapeOf(const nlohmann::json& sizes) {
  const auto all = sizes.get<std::vector<int64_t>>();
  return Shape(std::span<const int64_t>(all));
}

}  // namespace leat::goldens

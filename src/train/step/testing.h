// A small model, its data and comparisons, for the tests of this folder.
#pragma once

#include <bit>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compute/kernels/reference/reference.h"
#include "compute/optim/init.h"
#include "net/same_host/shared_memory.h"
#include "net/transport.h"
#include "train/step/trainer.h"

namespace leat::step::testing {

// `running`: features with a running scale.
inline nn::Model ModelOf(const std::string& yaml, uint32_t features,
                         const std::vector<uint32_t>& running = {}) {
  return nn::Model::FromConfig(Config::Parse(yaml, "job.yaml"), {.features = features, .running = running});
}

inline protocol::SliceTable TableOf(const nn::Model& model) {
  return protocol::MakeSlices({model.variables().begin(), model.variables().end()}, 1, 2);
}

// A trainer on parameters drawn from a seed.
struct Computer {
  explicit Computer(const nn::Model& model)
      : parameters(TableOf(model), net::MakeSharedBuffer),
        trainer(model, parameters, {.tables = {&reference::Kernels()}}) {
    for (size_t v = 0; v < model.variables().size(); ++v) {
      const auto& spec = model.variables()[v];
      optim::Initialise(spec.init, 1, spec.name, 0, parameters.values(v));
    }
  }
  std::vector<float> Gradients() const {
    const auto all = parameters.all_gradients();
    return {all.begin(), all.end()};
  }
  protocol::Parameters parameters;
  Trainer trainer;
};

// Rows with features and classes drawn from a seed.
struct Data {
  Data(uint32_t count, uint32_t width, uint32_t classes) : features(size_t{count} * width), labels(count) {
    Rng rng(2);
    for (auto& x : features) x = static_cast<float>(rng.Normal());
    for (auto& y : labels) y = static_cast<float>(rng.Below(classes));
  }
  Rows rows() const { return {.features = features, .labels = labels, .truth = {}}; }
  std::vector<float> features, labels;
};

// Rows [begin, end).
inline std::vector<uint32_t> Range(uint32_t begin, uint32_t end) {
  std::vector<uint32_t> rows(end - begin);
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

// Compares bit by bit: distinguishes zeros by sign, and equates NaNs.
inline std::vector<uint32_t> Bits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float x : values) bits.push_back(std::bit_cast<uint32_t>(x));
  return bits;
}

}  // namespace leat::step::testing

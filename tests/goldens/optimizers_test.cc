// Compares every optimizer, schedule and clipping with PyTorch, after each update.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/optim/optimizer.h"
#include "golden.h"

namespace leat::goldens {
namespace {

std::vector<float> Gradient(uint32_t step, size_t size) {
  std::vector<float> g(size);
  for (uint32_t i = 0; i < size; ++i) g[i] = Fill(100 + step, i) * (step % 4 == 2 ? 3.0f : 0.5f);
  g[3] = 0;
  return g;
}

void Clip(const optim::Clipping& clipping, std::vector<float>& g) {
  if (clipping.value > 0) optim::Clamp(g.data(), g.size(), clipping.value);
  if (clipping.norm > 0) {
    const double norm = std::sqrt(optim::SquaredNorm(g.data(), g.size()));
    optim::Scale(g.data(), g.size(), optim::ClipFactor(norm, clipping.norm));
  }
}

TEST(OptimizersGolden, EveryUpdateIsThatOfPyTorch) {
  const auto cases = Read("optimizers.json");
  ASSERT_GE(cases.size(), 20u);
  for (const auto& golden : cases) {
    const std::string section = golden["optimizer"].dump();
    const auto config = optim::FromConfig(Config::Parse(section, "optimizers.json"));
    const size_t size = golden["values"][0].size();
    std::vector<float> w(size, 0.0f);
    for (uint32_t i = 0; i < size && !golden["zero"]; ++i) w[i] = Fill(1, i);
    std::vector<std::vector<float>> slots;
    for (size_t s = 0; s < optim::SlotNames(config).size(); ++s)
      slots.emplace_back(size, optim::InitialSlot(config, s));
    const std::vector<std::span<float>> spans(slots.begin(), slots.end());
    for (uint32_t step = 0; step < golden["values"].size(); ++step) {
      auto g = Gradient(step, size);
      Clip(config.clipping, g);
      optim::Apply(config, w, g, spans, step + 1, 1);
      for (size_t i = 0; i < size; ++i) {
        const float expected = golden["values"][step][i];
        // The bound is one or two ulps per update, amplified slightly by momentum and normalisation.
        ASSERT_NEAR(w[i], expected, 1e-6 + 2e-6 * std::abs(expected))
            << section << " step " << step + 1 << " element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace leat::goldens

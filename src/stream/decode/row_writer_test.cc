#include "stream/decode/row_writer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace leat::stream {
namespace {

TEST(FieldWriter, TakesTheLogarithmAsLog1pDoes) {
  Field field;
  field.log = true;
  const FieldWriter writer(field, 0, 0);
  float feature = -1;
  const Row row{.features = &feature, .labels = nullptr, .truth = nullptr};
  Rng rng(1);
  for (int i = 0; i < 100'000; ++i) {
    const double x = i == 0 ? 0 : rng.Uniform() * std::pow(10, 200 * rng.Uniform() - 100);
    ASSERT_TRUE(writer.WriteNumber(x, row)) << x;
    ASSERT_NEAR(feature, std::log1p(x), 1e-7 * std::log1p(x) + 1e-45) << x;
  }
}

}  // namespace
}  // namespace leat::stream

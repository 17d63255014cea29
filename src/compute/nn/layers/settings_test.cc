#include "compute/nn/layers/kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace leat::nn {
namespace {

InitSpec Read(const std::string& init) {
  return ReadInit(Config::Parse("{init: " + init + "}", "job.yaml"), InitKind::kZeros, 3, 5);
}

TEST(Settings, InitialValuesHaveAKindOrAWidth) {
  EXPECT_EQ(ReadInit(Config::Parse("{units: 2}", "job.yaml"), InitKind::kHeNormal, 3, 5),
            (InitSpec{InitKind::kHeNormal, 0, 3, 5}));
  EXPECT_EQ(Read("glorot_uniform"), (InitSpec{InitKind::kGlorotUniform, 0, 3, 5}));
  EXPECT_EQ(Read("{constant: -0.5}"), (InitSpec{InitKind::kConstant, -0.5f, 3, 5}));
  EXPECT_EQ(Read("{normal: 0.02}"), (InitSpec{InitKind::kNormal, 0.02f, 3, 5}));
  EXPECT_EQ(Read("{uniform: 0.25}"), (InitSpec{InitKind::kUniform, 0.25f, 3, 5}));
}

TEST(Settings, InitialValuesThatAreNoneAreRefused) {
  for (const char* init : {"normal", "uniform", "constant", "he_norm", "{normal: -1}", "{uniform: a}", "{}",
                           "{normal: 1, constant: 2}", "{normal: 1e30}", "{he_normal: 1}"}) {
    try {
      Read(init);
      ADD_FAILURE() << init;
    } catch (const std::invalid_argument& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("job.yaml:1")) << init;
    }
  }
}

}  // namespace
}  // namespace leat::nn

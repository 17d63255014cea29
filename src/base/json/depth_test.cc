#include "base/json/depth.h"

#include <gtest/gtest.h>

#include <string>

namespace leat {
namespace {

TEST(JsonDepthTest, CountsLevels) {
  EXPECT_TRUE(IsShallowJson("", 0));
  EXPECT_TRUE(IsShallowJson("7", 0));
  EXPECT_FALSE(IsShallowJson("[]", 0));
  EXPECT_TRUE(IsShallowJson("[{}, {}, [], []]", 2));
  EXPECT_FALSE(IsShallowJson(R"([{}, {"a": [1]}])", 2));
  EXPECT_FALSE(IsShallowJson(std::string(1'000'000, '['), 32));
}

TEST(JsonDepthTest, TextsAreNoLevels) {
  EXPECT_TRUE(IsShallowJson(R"(["[[[", "{\"{{", "\\"])", 1));
  EXPECT_FALSE(IsShallowJson(R"(["\\", ["\""]])", 1));
}

}  // namespace
}  // namespace leat

#include "base/shared.h"

#include <gtest/gtest.h>

#include <string>

namespace leat {
namespace {

TEST(Shared, IsOneValueThatManyHold) {
  Shared<std::string> none;
  EXPECT_FALSE(none);
  const Shared<std::string> a = std::string("a view");
  const Shared<std::string> same = a, equal = std::string("a view"), other = std::string("another");
  EXPECT_EQ(&*same, &*a) << "copied";
  EXPECT_EQ(same, a);
  EXPECT_EQ(equal, a);
  EXPECT_NE(other, a);
  EXPECT_NE(none, a);
  EXPECT_EQ(none, Shared<std::string>());
}

TEST(Shared, IsFilledInWithoutChangingWhatOthersHold) {
  Shared<std::string> mine = std::string("before");
  const Shared<std::string> others = mine;
  mine.emplace() = "after";
  EXPECT_EQ(*others, "before");
  EXPECT_EQ(*mine, "after");
  EXPECT_EQ(mine->size(), 5u);
}

}  // namespace
}  // namespace leat

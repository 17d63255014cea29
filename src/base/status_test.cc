#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

namespace leat {
namespace {

TEST(Status, SaysWhatWentWrongAndWhere) {
  const Status s(Code::kUnavailable, "connection closed");
  EXPECT_FALSE(s.ok());
  EXPECT_EQ(s.ToString(), "unavailable: connection closed");
  EXPECT_EQ(s.With("ps 3").ToString(), "unavailable: ps 3: connection closed");
  EXPECT_EQ(s.With("ps 3").code(), Code::kUnavailable);
  EXPECT_EQ(Status().ToString(), "ok");
  EXPECT_EQ(Status().With("ps 3"), Status());
}

TEST(Status, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::kInternal); ++code)
    names.insert(CodeName(static_cast<Code>(code)));
  EXPECT_EQ(names.size(), static_cast<size_t>(Code::kInternal) + 1);
  EXPECT_FALSE(names.contains("unknown"));
}

Result<std::unique_ptr<int>> Half(int n) {
  if (n % 2 != 0) return Status(Code::kInvalidArgument, std::to_string(n) + " is odd");
  return std::make_unique<int>(n / 2);
}

Result<int> Quarter(int n) {
  LEAT_ASSIGN_OR_RETURN(const auto half, Half(n));
  LEAT_ASSIGN_OR_RETURN(auto quarter, Half(*half));
  return *quarter;
}

Status IsDivisibleBy4(int n) {
  LEAT_RETURN_IF_ERROR(Quarter(n).status());
  return Status();
}

TEST(Result, HoldsAValueOrTheReason) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(7).status(), Status(Code::kInvalidArgument, "7 is odd"));
  EXPECT_EQ(Quarter(6).status(), Status(Code::kInvalidArgument, "3 is odd"));
  EXPECT_TRUE(IsDivisibleBy4(8).ok());
  EXPECT_FALSE(IsDivisibleBy4(10).ok());
  EXPECT_TRUE(Quarter(12).status().ok());
}

TEST(Result, MovesTheValueOut) {
  auto half = Half(4);
  const std::unique_ptr<int> taken = *std::move(half);
  EXPECT_EQ(*taken, 2);
}

TEST(ResultDeathTest, ReadingAValueThatIsNotThereIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(Half(3).value(), "CHECK");
  EXPECT_DEATH(static_cast<void>(Result<int>{Status()}), "CHECK");
}

}  // namespace
}  // namespace leat

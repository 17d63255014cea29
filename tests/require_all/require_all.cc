// Part of every test program (leat_test): with LEAT_REQUIRE_ALL=1 a skipped test fails, unless base/testing.h
// allows the skip.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

#include "base/testing.h"

namespace {

bool IsAllowed(const std::string& message) {
  return std::ranges::any_of(leat::kAllowedSkips, [&](const leat::SkipReason& row) {
    std::ostringstream said;
    said << row;
    return message.find(said.str()) != std::string::npos;
  });
}

class FailSkips : public ::testing::EmptyTestEventListener {
 private:
  // A failure that is added here counts for the test that ends.
  void OnTestEnd(const ::testing::TestInfo& test) override {
    const ::testing::TestResult& result = *test.result();
    std::string refused;
    for (int i = 0; i < result.total_part_count(); ++i) {
      const ::testing::TestPartResult& part = result.GetTestPartResult(i);
      if (part.skipped() && !IsAllowed(part.message())) refused += std::string(" ") + part.message();
    }
    if (!refused.empty())
      ADD_FAILURE() << "skipped, and LEAT_REQUIRE_ALL=1 allows no test to skip:" << refused;
  }
};

// Runs before main, which some test programs define themselves. googletest deletes the listener.
[[maybe_unused]] const bool added = [] {
  const char* const value = std::getenv("LEAT_REQUIRE_ALL");
  const bool wanted = value != nullptr && std::string_view(value) == "1";
  if (wanted) ::testing::UnitTest::GetInstance()->listeners().Append(new FailSkips);
  return wanted;
}();

}  // namespace

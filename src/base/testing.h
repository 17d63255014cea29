// What the environment of a test asks for.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <ostream>
#include <stdexcept>
#include <string_view>

namespace leat {

// Whether this is the long tier: `./leat test --long` sets LEAT_LONG=1, and tests run more seeds.
inline bool LongTier() {
  const char* const value = std::getenv("LEAT_LONG");
  return value != nullptr && std::string_view(value) == "1";
}

// Skips that are right even where nothing may be missing. With LEAT_REQUIRE_ALL=1, which continuous
// integration sets, a test that skips fails (tests/require_all/). A skip that no machine could be equipped to
// avoid has a row here, with its reason, and says GTEST_SKIP() << AllowedSkip("name").
struct SkipReason {
  std::string_view name;
  std::string_view reason;
};

inline constexpr SkipReason kAllowedSkips[] = {
    {"heap", "sanitizers replace the heap"},
    {"huge-pages", "the kernel has no transparent huge pages"},
    {"ipv6", "the machine has no IPv6 address of its own"},
    {"bf16", "the processor does not multiply in bf16"},
};

// The row of that name; no other compiles.
consteval SkipReason AllowedSkip(std::string_view name) {
  const auto row = std::ranges::find(kAllowedSkips, name, &SkipReason::name);
  if (row == std::end(kAllowedSkips)) throw std::invalid_argument("no row of kAllowedSkips has this name");
  return *row;
}

inline std::ostream& operator<<(std::ostream& out, const SkipReason& skip) {
  return out << "allowed skip " << skip.name << ": " << skip.reason;
}

}  // namespace leat

// Test utilities for all folders: test tiers, allowed skips, temporary files, waiting. Included by tests
// only.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"

namespace leat {

// Stands still until Advance is called. Not thread-safe.
class ManualClock final : public Clock {
 public:
  Time Now() const override { return now_; }
  void Advance(Duration by) { now_ += by; }

 private:
  Time now_{0};
};

// Whether this is a long run with more seeds: `./leat test --long` sets LEAT_LONG=1.
inline bool LongTier() {
  const char* const value = std::getenv("LEAT_LONG");
  return value != nullptr && std::string_view(value) == "1";
}

// With LEAT_REQUIRE_ALL=1, which CI sets, a skipped test fails (tests/require_all/). The only exceptions are
// these skips, which no installed package could avoid: GTEST_SKIP() << AllowedSkip("name").
struct SkipReason {
  std::string_view name;
  std::string_view reason;
};

inline constexpr SkipReason kAllowedSkips[] = {
    {"heap", "sanitizers replace the heap"},
    {"thrd", "ThreadSanitizer crashes in threads of C11, which librdkafka starts"},
    {"huge-pages", "the kernel has no transparent huge pages"},
    {"ipv6", "the machine has no IPv6 address of its own"},
    {"bf16", "the processor does not multiply in bf16"},
};

// The row with this name; an unknown name does not compile.
consteval SkipReason AllowedSkip(std::string_view name) {
  const auto row = std::ranges::find(kAllowedSkips, name, &SkipReason::name);
  if (row == std::end(kAllowedSkips)) throw std::invalid_argument("no row of kAllowedSkips has this name");
  return *row;
}

inline std::ostream& operator<<(std::ostream& out, const SkipReason& skip) {
  return out << "allowed skip " << skip.name << ": " << skip.reason;
}

// A temporary directory, removed by the destructor.
class TempDir {
 public:
  TempDir() {
    std::string path = (std::filesystem::temp_directory_path() / "leat-test-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    path_ = path;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Returns the path of the file.
  std::string Write(std::string_view name, std::string_view text) const {
    std::ofstream(*this / name, std::ios::binary) << text;
    return *this / name;
  }

 private:
  std::string path_;
};

inline std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Polls every millisecond; returns false if the condition does not hold by the deadline.
inline bool WaitFor(const std::function<bool()>& condition, Duration deadline = std::chrono::seconds(120)) {
  const MonotonicClock clock;
  const Time until = clock.Now() + deadline;
  while (!condition()) {
    if (clock.Now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Number of seeds of a test that has `all` of them. A sanitizer makes the test some twenty times as slow, and
// its findings need few seeds.
constexpr uint64_t SeedsOf(uint64_t all, [[maybe_unused]] uint64_t divided_by = 8) {
#ifdef LEAT_SANITIZED
  return std::max<uint64_t>(1, all / divided_by);
#else
  return all;
#endif
}

// Stride of a test with numbered cases, which runs one in so many of them. 1 without a sanitizer: all.
constexpr uint64_t OneIn(uint64_t many) {
  return many / SeedsOf(many, many);
}

// The message of the std::invalid_argument that `work` throws; empty if it throws nothing.
inline std::string Mistake(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// `text` with the first occurrence of `old` replaced; the test fails if there is none.
inline std::string Replaced(std::string text, std::string_view old, std::string_view by) {
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return at == std::string::npos ? text : text.replace(at, old.size(), by);
}

}  // namespace leat

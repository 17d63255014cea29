#include "lab/soak/seed_pool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <string>

#include "base/check.h"

namespace leat::soak {
namespace {

struct Ends {
  std::map<uint64_t, std::string> results, deaths;
};

Ends RunAll(SeedPoolOptions options) {
  Ends ends;
  options.on_result = [&](uint64_t seed, const std::string& result) {
    EXPECT_TRUE(ends.results.emplace(seed, result).second);
  };
  options.on_death = [&](uint64_t seed, const std::string& why) {
    EXPECT_TRUE(ends.deaths.emplace(seed, why).second);
  };
  RunSeeds(options);
  return ends;
}

TEST(SeedPool, RunsEachSeedOnce) {
  const Ends ends = RunAll({.first = 5, .count = 100, .processes = 3, .run = [](uint64_t seed) {
                              return std::string(seed * 1000, 'x');  // more than fits into a socket at once
                            }});
  EXPECT_EQ(ends.results.size(), 100u);
  EXPECT_TRUE(ends.deaths.empty());
  for (uint64_t seed = 5; seed < 105; ++seed) EXPECT_EQ(ends.results.at(seed).size(), seed * 1000);
}

TEST(SeedPool, GoesOnAfterSeedsThatEndTheirProcess) {
  const Ends ends = RunAll({.count = 20, .processes = 2, .run = [](uint64_t seed) -> std::string {
                              LEAT_CHECK(seed != 3);
                              if (seed == 7) throw std::runtime_error("the seventh");
                              if (seed == 9) raise(SIGKILL);
                              return "fine";
                            }});
  EXPECT_EQ(ends.results.size(), 17u);
  ASSERT_EQ(ends.deaths.size(), 3u);
  EXPECT_NE(ends.deaths.at(3).find("ended with SIGABRT: "), std::string::npos) << ends.deaths.at(3);
  EXPECT_NE(ends.deaths.at(3).find("seed != 3"), std::string::npos) << ends.deaths.at(3);
  EXPECT_EQ(ends.deaths.at(7), "ended with status 1: the seventh");
  EXPECT_EQ(ends.deaths.at(9), "ended with SIGKILL");
}

TEST(SeedPool, EndsASeedThatHangs) {
  const Ends ends =
      RunAll({.count = 3, .processes = 2, .deadline = std::chrono::seconds(3), .run = [](uint64_t seed) {
                while (seed == 2) pause();
                return std::string();
              }});
  EXPECT_EQ(ends.results.size(), 2u);
  EXPECT_EQ(ends.deaths.at(2), "still running after 0.05 minutes");
}

}  // namespace
}  // namespace leat::soak

#include "lab/sim/hosts/shared_cores.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace leat::sim {
namespace {

using namespace std::chrono_literals;

// Runs all tasks to their ends: (task, time) in that order.
std::vector<std::pair<uint32_t, Time>> Ends(SharedCores* cores) {
  std::vector<std::pair<uint32_t, Time>> ends;
  for (Time at; (at = cores->NextEnd()) != Time::max();) {
    for (uint32_t task = 0; cores->End(at, &task);) ends.emplace_back(task, at);
  }
  return ends;
}

TEST(SharedCores, WithACoreForEachThreadATaskTakesItsWork) {
  SharedCores cores(2);
  cores.Begin(Time(0), 1, 10ms);
  cores.Begin(Time(2ms), 2, 10ms);
  EXPECT_EQ(Ends(&cores), (std::vector<std::pair<uint32_t, Time>>{{1, 10ms}, {2, 12ms}}));
}

TEST(SharedCores, ThreadsShareACoreEvenly) {
  SharedCores cores(1);
  cores.Begin(Time(0), 1, 10ms);
  cores.Begin(Time(0), 2, 30ms);
  // Both get half until the first is done at 20 ms; then the second has 20 ms of work left.
  EXPECT_EQ(Ends(&cores), (std::vector<std::pair<uint32_t, Time>>{{1, 20ms}, {2, 40ms}}));
}

TEST(SharedCores, ALaterTaskSlowsTheFirstDown) {
  SharedCores cores(1);
  cores.Begin(Time(0), 1, 10ms);
  EXPECT_EQ(cores.NextEnd(), Time(10ms));
  EXPECT_EQ(cores.Share(1), 0.5);
  cores.Begin(Time(5ms), 2, 5ms);
  EXPECT_EQ(Ends(&cores), (std::vector<std::pair<uint32_t, Time>>{{1, 15ms}, {2, 15ms}}));
}

TEST(SharedCores, ATaskOfSeveralThreadsNeedsAsManyCores) {
  SharedCores cores(2);
  cores.Begin(Time(0), 1, 10ms, 4);
  EXPECT_EQ(Ends(&cores), (std::vector<std::pair<uint32_t, Time>>{{1, 20ms}}));
}

TEST(SharedCores, WorkIsNeverLost) {
  SharedCores cores(1.5);
  uint32_t ended = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    const Time begin = i * 1ms;
    for (Time at; (at = cores.NextEnd()) <= begin;) {
      for (uint32_t task = 0; cores.End(at, &task);) ++ended;
    }
    cores.Begin(begin, i, 3ms);
  }
  const auto ends = Ends(&cores);
  EXPECT_EQ(ended + ends.size(), 100u);
  // 1 ms with one thread, and then 299 ms of work on a core and a half, but for the last task alone.
  EXPECT_NEAR(Seconds(ends.back().second), 0.001 + 0.299 / 1.5, 1e-3);
}

}  // namespace
}  // namespace leat::sim

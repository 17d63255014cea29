#include "run/launcher/signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <future>
#include <stdexcept>

namespace leat::launcher {
namespace {

TEST(LifeWatch, CallsWhenTheOtherEndCloses) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  std::promise<void> ended;
  auto over = ended.get_future();
  const LifeWatch watch(ends[0], [&] { ended.set_value(); });
  ASSERT_EQ(write(ends[1], "x", 1), 1);  // means nothing
  EXPECT_EQ(over.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  close(ends[1]);
  EXPECT_EQ(over.wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST(LifeWatch, EndsBeforeTheOther) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  {
    const LifeWatch watch(ends[0], [] { FAIL() << "nobody has ended"; });
  }
  EXPECT_EQ(fcntl(ends[0], F_GETFD), -1) << "it is closed";
  close(ends[1]);
}

TEST(LifeWatch, NeedsAPipe) {
  EXPECT_THROW(LifeWatch(9999, [] {}), std::invalid_argument);
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_THROW(LifeWatch(file, [] {}), std::invalid_argument);
  close(file);
  const LifeWatch nobody(-1, [] { FAIL(); });
}

}  // namespace
}  // namespace leat::launcher

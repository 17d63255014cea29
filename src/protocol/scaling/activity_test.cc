#include "protocol/scaling/autoscaler.h"

#include <gtest/gtest.h>

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ActivityTest : public ::testing::Test {
 protected:
  // For so long, with the load as it is; `rate`: events that come and are trained at once, per quarter of a
  // second.
  bool Run(Duration time, uint64_t rate = 0) {
    bool active = activity_.active();
    for (const Time until = now_ + time; now_ < until;) {
      now_ += milliseconds(250);
      load_.arrived += rate;
      load_.trained += rate;
      active = activity_.OnLoad(now_, load_, open_);
    }
    return active;
  }

  Activity activity_;
  Load load_{.ready = true, .training = true, .workers = 1, .servers = 1};
  bool open_ = false;
  Time now_{seconds(10)};
};

TEST_F(ActivityTest, AJobThatIsBehindNeedsWorkers) {
  load_.lag = 1;
  EXPECT_TRUE(Run(seconds(60)));
}

TEST_F(ActivityTest, AStreamIsSilentAfterAWhile) {
  EXPECT_TRUE(Run(seconds(60), 10));
  EXPECT_TRUE(Run(seconds(4)));
  EXPECT_TRUE(Run(seconds(4), 1)) << "a pause, and then events again";
  EXPECT_TRUE(Run(seconds(4)));
  EXPECT_FALSE(Run(seconds(2)));
  EXPECT_FALSE(Run(seconds(600)));
}

TEST_F(ActivityTest, TheFirstEventIsEnough) {
  ASSERT_FALSE(Run(seconds(10)));
  load_.workers = 0;
  load_.training = false;
  EXPECT_FALSE(Run(seconds(10)));
  load_.arrived += 1;
  load_.lag = 1;
  EXPECT_TRUE(Run(milliseconds(250)));
  EXPECT_TRUE(Run(seconds(60))) << "until it is trained";
  load_.lag = 0;
  EXPECT_TRUE(Run(seconds(4)));
  EXPECT_FALSE(Run(seconds(2)));
}

TEST_F(ActivityTest, OtherWorkCounts) {
  open_ = true;
  EXPECT_TRUE(Run(seconds(60)));
  open_ = false;
  EXPECT_FALSE(Run(seconds(6)));
}

TEST_F(ActivityTest, AJobThatIsHeldUpStaysAsItIs) {
  load_.ready = load_.training = false;  // its servers are gone, or it is paused
  EXPECT_TRUE(Run(seconds(60)));
  load_.ready = load_.training = true;
  EXPECT_TRUE(Run(seconds(4))) << "the silence begins now";
  EXPECT_FALSE(Run(seconds(2)));
  load_.ready = load_.training = false;
  EXPECT_FALSE(Run(seconds(60)));
}

}  // namespace
}  // namespace leat::protocol

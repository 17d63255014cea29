#include "train/step/share_log.h"

#include <gtest/gtest.h>

#include <vector>

namespace leat::step {
namespace {

TEST(ShareLog, ReportsAtMostOnceInAnInterval) {
  const metrics::ShareLayout layout{
      .width = 2, .labels = 1, .classes = 3, .features = {{.name = "amount", .column = 1}}};
  ShareLog log(layout);
  const std::vector<float> features{0, 10, 0, 20, 0, 30}, labels{2, 0, 2};
  const Rows rows{.features = features, .labels = labels};
  // Empty: there is no new one.
  const auto reported = [&] {
    protocol::WorkerProgress progress;
    log.Report(&progress);
    return progress.share;
  };
  EXPECT_TRUE(reported().empty());
  Time now = std::chrono::seconds(7);
  const std::vector<uint32_t> batch{0, 2};
  log.Add(rows, batch, 4);
  log.Update(now);
  const auto share = metrics::Share::Decode(layout, reported());
  ASSERT_TRUE(share.ok());
  EXPECT_EQ(share->events(), 2);
  EXPECT_EQ(share->splits(), 0.25) << "a batch of four";
  EXPECT_EQ(share->label().bins, (std::vector<double>{0, 0, 2}));
  EXPECT_EQ(share->features()[0].mean, 20);
  EXPECT_TRUE(reported().empty()) << "it is in one report";

  log.Add(rows, batch, 4);
  now += ShareLog::kInterval / 2;
  log.Update(now);
  EXPECT_TRUE(reported().empty());
  now += ShareLog::kInterval / 2;
  log.Update(now);
  const auto next = metrics::Share::Decode(layout, reported());
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->events(), 4) << "since the start";
  EXPECT_TRUE(next->Since(*share));
}

}  // namespace
}  // namespace leat::step

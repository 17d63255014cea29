#include "train/step/reports.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace leat::step {
namespace {

using namespace std::chrono_literals;

TEST(BatchLog, AnEntryIsRepeatedUntilItIsAnswered) {
  BatchLog log;
  log.Add({.events = 3, .loss_sum = 1.5, .correct = 2, .absolute_error = 0.5});
  log.Add({});
  protocol::WorkerProgress progress;
  log.Report(&progress);
  EXPECT_EQ(progress.first_batch, 0u);
  ASSERT_EQ(progress.batches.size(), 1u) << "an empty batch has no scores";
  EXPECT_EQ(progress.batches[0].events, 3u);
  EXPECT_EQ(progress.batches[0].loss_sum, 1.5);
  EXPECT_EQ(progress.batches[0].correct, 2u);
  EXPECT_EQ(progress.batches[0].absolute_error, 0.5);
  log.Add({.events = 4});
  log.Report(&progress);
  EXPECT_EQ(progress.first_batch, 0u);
  ASSERT_EQ(progress.batches.size(), 2u);
  log.Add({.events = 5});
  log.OnAnswered();
  log.Report(&progress);
  EXPECT_EQ(progress.first_batch, 2u);
  ASSERT_EQ(progress.batches.size(), 1u) << "what was added after the report is not answered";
  EXPECT_EQ(progress.batches[0].events, 5u);
}

// Any order of batches, reports and lost answers: a reader that goes by the numbers has each event once.
TEST(BatchLog, NothingIsLostOrCountedTwiceWhenAnswersAreLost) {
  for (const double answered : {0.9, 0.0005}) {
    BatchLog log;
    Rng rng(7);
    uint64_t made = 0, read = 0, next = 0, reports = 0;
    const auto report = [&](bool heard) {
      protocol::WorkerProgress progress;
      log.Report(&progress);
      ASSERT_LE(progress.batches.size(), BatchLog::kMaxEntries + ++reports);
      if (!heard) return;
      ASSERT_LE(progress.first_batch, next) << "a gap";
      for (size_t i = next - progress.first_batch; i < progress.batches.size(); ++i, ++next)
        read += progress.batches[i].events;
    };
    for (int i = 0; i < 40'000; ++i) {
      const auto events = static_cast<uint32_t>(1 + rng.Below(9));
      log.Add({.events = events});
      made += events;
      if (!rng.Chance(0.02)) continue;
      report(rng.Chance(0.7));
      if (rng.Chance(answered)) {
        report(true);
        log.OnAnswered();
      }
    }
    report(true);
    EXPECT_EQ(read, made);
  }
}

Time At(Duration since) {
  return Time(1000s) + since;
}

TEST(LongestStep, IsTheLongestTimeBetweenTwoBatches) {
  LongestStep longest;
  EXPECT_EQ(longest.longest(), 0s);
  longest.OnBatch(At(0s));
  EXPECT_EQ(longest.longest(), 0s) << "nothing is known about the first one";
  longest.OnBatch(At(100ms));
  longest.OnBatch(At(400ms));
  longest.OnBatch(At(500ms));
  EXPECT_EQ(longest.longest(), 300ms);
}

TEST(LongestStep, ForgetsWhatIsOld) {
  LongestStep longest;
  Duration at = 0s;
  longest.OnBatch(At(at));
  longest.OnBatch(At(at += 1s));
  const Duration end = LongestStep::kSpan;
  while (at < end) longest.OnBatch(At(at += 100ms));
  EXPECT_EQ(longest.longest(), 1s);
  while (at < 2 * end) longest.OnBatch(At(at += 100ms));
  EXPECT_EQ(longest.longest(), 100ms);
}

TEST(LongestStep, ALongStepIsShownThoughItLastsForSpans) {
  LongestStep longest;
  longest.OnBatch(At(0s));
  longest.OnBatch(At(60s));
  EXPECT_EQ(longest.longest(), 60s);
  longest.OnBatch(At(61s));
  EXPECT_EQ(longest.longest(), 60s);
}

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

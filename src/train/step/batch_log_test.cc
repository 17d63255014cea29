#include "train/step/batch_log.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace leat::step {
namespace {

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

}  // namespace
}  // namespace leat::step

#include "lab/study/analysis.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace leat::study {
namespace {

const auto kNever = [] { return false; };

// 1000 s of work; each server serves four workers at full speed.
Result<Prediction> Ideal(const Choice& choice) {
  const double useful = choice.servers == 0 ? choice.workers : std::min(choice.workers, 4 * choice.servers);
  const double seconds = 1000 / useful + (choice.servers == 0 ? 10.0 * choice.workers : 0);
  return Prediction{seconds, seconds / 3600 * (choice.workers + choice.servers)};
}

TEST(Advice, TheFastestHasAllThatHelps) {
  const Advice advice =
      Search({.on_servers = {"async"}, .most_workers = 16, .most_servers = 4}, Goal::kTime, 0, Ideal, kNever);
  ASSERT_TRUE(advice.best);
  EXPECT_EQ(advice.best->choice, (Choice{"async", 16, 4}));
}

TEST(Advice, TheCheapestWastesNothing) {
  const Advice advice =
      Search({.on_servers = {"async"}, .allreduce = false, .most_workers = 16, .most_servers = 4},
             Goal::kCost, 0, Ideal, kNever);
  ASSERT_TRUE(advice.best);
  // Four workers for each server; more of both cost the same.
  EXPECT_EQ(advice.best->choice, (Choice{"async", 4, 1}));
}

TEST(Advice, ADeadlineNeedsMore) {
  const Advice advice =
      Search({.on_servers = {"async"}, .allreduce = false, .most_workers = 32, .most_servers = 8},
             Goal::kCost, 130, Ideal, kNever);
  ASSERT_TRUE(advice.best);
  EXPECT_EQ(advice.best->choice, (Choice{"async", 8, 2}));
  EXPECT_FALSE(Search({.on_servers = {"async"}}, Goal::kCost, 1, Ideal, kNever).best);
}

TEST(Advice, NoChoiceIsPredictedTwice) {
  std::vector<Choice> asked;
  const auto predict = [&](const Choice& choice) {
    EXPECT_EQ(std::ranges::find(asked, choice), asked.end());
    asked.push_back(choice);
    return Ideal(choice);
  };
  Search({.on_servers = {"async", "sync"}}, Goal::kCost, 0, predict, kNever);
  EXPECT_GT(asked.size(), 10u);
}

TEST(Advice, SaysWhatCouldNotBePredicted) {
  const auto fails = [](const Choice&) -> Result<Prediction> { return Status(Code::kInternal, "no"); };
  EXPECT_EQ(Render(Search({.on_servers = {"async"}}, Goal::kTime, 0, fails, kNever), Goal::kTime, 0, ""),
            "no choice could be predicted\n");
}

TEST(Advice, HasFiveLines) {
  const Advice advice = Search({.on_servers = {"async"}}, Goal::kTime, 0, Ideal, kNever);
  const std::string text = Render(advice, Goal::kTime, 0, "reason");
  EXPECT_EQ(std::ranges::count(text, '\n'), 5);
}

}  // namespace
}  // namespace leat::study

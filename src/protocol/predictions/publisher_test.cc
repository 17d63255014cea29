#include "protocol/predictions/publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/rng.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Cut PublishedCut(uint64_t begin, uint64_t end, uint32_t batch_size = 4, uint32_t run = 1, uint64_t seed = 0) {
  return {.partition = 2,
          .after = {0, begin},
          .begin = {0, begin},
          .end = end,
          .hash = 7,
          .batch_size = batch_size,
          .shuffle_seed = seed,
          .run = run};
}

// The scores of a run; each is the event's offset plus `mark`.
RunScores Score(const Cut& cut, uint32_t run, float mark = 0, bool rescored = false,
                const std::set<uint64_t>& dead = {}) {
  std::vector<uint32_t> order;
  TrainingOrder(cut, &order);
  RunScores scores{.cut = cut, .run = run, .rescored = rescored, .events = {}, .scores = {}, .keys = {}};
  const size_t begin = size_t{run} * cut.run * cut.batch_size;
  for (size_t k = begin; k < begin + cut.EventsOf(run); ++k) {
    const uint64_t offset = cut.begin.offset + order[k];
    if (dead.contains(offset)) continue;
    scores.events.push_back(order[k]);
    scores.scores.push_back(static_cast<float>(offset) + mark);
    scores.keys.push_back(offset % 2 == 0 ? std::optional("k" + std::to_string(offset)) : std::nullopt);
  }
  return scores;
}

std::vector<uint64_t> OffsetsOf(const PartitionPublisher::Publication& publication) {
  std::vector<uint64_t> offsets;
  for (const auto& prediction : publication.predictions) offsets.push_back(prediction.offset);
  return offsets;
}

TEST(RunScores, AreChecked) {
  const Cut cut = PublishedCut(10, 20);
  EXPECT_TRUE(Score(cut, 2).valid());
  EXPECT_TRUE((RunScores{.cut = cut, .run = 0}).valid()) << "no good record";
  const auto broken = [&](auto breaks) {
    RunScores scores = Score(cut, 1);
    breaks(scores);
    return scores.valid();
  };
  EXPECT_FALSE(broken([](RunScores& s) { s.run = 3; }));
  EXPECT_FALSE(broken([](RunScores& s) { s.width = 0; }));
  EXPECT_FALSE(broken([](RunScores& s) { s.scores.pop_back(); }));
  EXPECT_FALSE(broken([](RunScores& s) { s.keys.pop_back(); }));
  EXPECT_FALSE(broken([](RunScores& s) { s.events[0] = s.events[1]; }));
  EXPECT_FALSE(broken([](RunScores& s) { s.events[0] = 10; })) << "beyond the cut";
  EXPECT_FALSE(broken([](RunScores& s) { s.run = 2; })) << "more events than the run has";
  EXPECT_FALSE(broken([](RunScores& s) { s.cut.end = s.cut.begin.offset; }));
}

TEST(PartitionPublisher, PublishesWholeSplitsInOrder) {
  PartitionPublisher publisher(2, 10);
  const Cut first = PublishedCut(10, 16, 4, 1, 99), second = PublishedCut(16, 20);
  EXPECT_FALSE(publisher.Next(100).has_value());
  EXPECT_TRUE(publisher.Take(Score(second, 0)).ok());
  EXPECT_FALSE(publisher.Next(100).has_value()) << "the first one lacks both runs";
  EXPECT_TRUE(publisher.Take(Score(first, 1)).ok());
  EXPECT_FALSE(publisher.Next(100).has_value());
  EXPECT_EQ(publisher.waiting(), 6u);
  EXPECT_TRUE(publisher.Take(Score(first, 0, 0, false, {12})).ok());
  const auto next = publisher.Next(100);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->begin, 10u);
  EXPECT_EQ(next->end, 20u);
  EXPECT_THAT(OffsetsOf(*next), ElementsAre(10, 11, 13, 14, 15, 16, 17, 18, 19));
  EXPECT_EQ(*next->predictions[0].key, "k10");
  EXPECT_EQ(*next->predictions[1].key, std::nullopt);
  EXPECT_EQ(next->predictions[2].scores[0], 13);
  EXPECT_FALSE(publisher.Next(100).has_value()) << "one at a time";
  publisher.OnPublished(true);
  EXPECT_EQ(publisher.published(), 20u);
  EXPECT_EQ(publisher.waiting(), 0u);
  EXPECT_THAT(publisher.Held(10), IsEmpty());
}

TEST(PartitionPublisher, TheFirstScoresStand) {
  PartitionPublisher publisher(2, 0);
  const Cut cut = PublishedCut(0, 8);
  EXPECT_TRUE(publisher.Take(Score(cut, 0, 0.5f)).ok());
  EXPECT_EQ(publisher.Take(Score(cut, 0, 7, true)).code(), Code::kStale);
  EXPECT_TRUE(publisher.Take(Score(cut, 1, 7, true)).ok());
  auto next = publisher.Next(1);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->predictions[0].scores[0], 0.5f);
  EXPECT_FALSE(next->predictions[0].rescored);
  EXPECT_TRUE(next->predictions[4].rescored);
  EXPECT_EQ(publisher.Take(Score(cut, 0)).code(), Code::kStale) << "while it is written";
  publisher.OnPublished(false);
  EXPECT_EQ(publisher.published(), 0u);
  next = publisher.Next(1);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->predictions.size(), 8u) << "all of it again";
  publisher.OnPublished(true);
  EXPECT_EQ(publisher.rescored(), 4u);
  EXPECT_EQ(publisher.Take(Score(cut, 1)).code(), Code::kStale);
  Cut other = PublishedCut(8, 9);
  other.partition = 1;
  EXPECT_EQ(publisher.Take(Score(other, 0)).code(), Code::kStale);
}

TEST(PartitionPublisher, ARangeThatIsCutAgainIsScoredAgain) {
  PartitionPublisher publisher(2, 0);
  EXPECT_TRUE(publisher.Take(Score(PublishedCut(0, 8), 0)).ok());
  EXPECT_TRUE(publisher.Take(Score(PublishedCut(8, 12), 0)).ok());
  EXPECT_TRUE(publisher.Take(Score(PublishedCut(0, 10, 5), 1)).ok());
  EXPECT_EQ(publisher.waiting(), 9u);
  EXPECT_TRUE(publisher.Take(Score(PublishedCut(0, 10, 5), 0)).ok());
  EXPECT_THAT(OffsetsOf(publisher.Next(100).value()), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  publisher.OnPublished(true);
  EXPECT_EQ(publisher.waiting(), 0u);
  EXPECT_THAT(publisher.Held(10), IsEmpty());
}

TEST(PartitionPublisher, APublicationHasAboutAsManyEventsAsAsked) {
  PartitionPublisher publisher(2, 0);
  for (uint64_t begin = 0; begin < 40; begin += 4)
    EXPECT_TRUE(publisher.Take(Score(PublishedCut(begin, begin + 4), 0)).ok());
  const auto next = [&](size_t most) {
    const auto publication = publisher.Next(most);
    publisher.OnPublished(true);
    return publication->predictions.size();
  };
  EXPECT_EQ(next(1), 4u);
  EXPECT_EQ(next(11), 8u);
  EXPECT_EQ(next(100), 28u);
}

// Whatever is lost, repeated or fails: the topic has each good event once, in order, and its first score.
TEST(PartitionPublisher, TheTopicHasEachEventOnce) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    const std::set<uint64_t> dead = {rng.Below(200), rng.Below(200), rng.Below(200)};
    std::vector<Cut> cuts;
    for (uint64_t begin = 0; begin < 200;) {
      const uint64_t end = std::min<uint64_t>(200, begin + 1 + rng.Below(40));
      cuts.push_back(PublishedCut(begin, end, static_cast<uint32_t>(1 + rng.Below(9)),
                                  static_cast<uint32_t>(1 + rng.Below(3)), rng()));
      begin = end;
    }
    std::vector<std::pair<uint64_t, float>> topic;
    uint64_t committed = 0;
    PartitionPublisher publisher(2, 0);
    float mark = 0;
    for (int step = 0; committed < 200; ++step) {
      ASSERT_LT(step, 100'000) << seed;
      const Cut& cut = cuts[rng.Below(cuts.size())];
      mark += 0.0001f;
      (void)publisher.Take(
          Score(cut, static_cast<uint32_t>(rng.Below(cut.runs())), mark, rng.Chance(0.1), dead));
      if (rng.Chance(0.0005)) publisher = PartitionPublisher(2, committed);  // its process is replaced
      const auto next = publisher.Next(rng.Below(60));
      if (!next) continue;
      ASSERT_EQ(next->begin, committed);
      const bool fails = rng.Chance(0.3);
      if (!fails) {
        for (const auto& prediction : next->predictions)
          topic.emplace_back(prediction.offset, prediction.scores[0]);
        committed = next->end;
      }
      if (rng.Chance(0.2)) {
        publisher = PartitionPublisher(2, committed);  // before it knows
      } else {
        publisher.OnPublished(!fails);
      }
    }
    ASSERT_EQ(topic.size(), 200 - dead.size()) << seed;
    uint64_t offset = 0;
    for (const auto& [at, score] : topic) {
      while (dead.contains(offset)) ++offset;
      ASSERT_EQ(at, offset++) << seed;
    }
  }
}

}  // namespace
}  // namespace leat::protocol

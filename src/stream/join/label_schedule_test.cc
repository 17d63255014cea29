#include "stream/join/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "base/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Times = std::vector<std::optional<int64_t>>;
using std::chrono::seconds;

constexpr int64_t kWindow = 3200;  // a step spans 100 ms

// The records of both partitions, and what a schedule makes of them.
class LabelScheduleTest : public ::testing::Test {
 protected:
  LabelSchedule Make(const LabelMark& last = {}) const {
    return LabelSchedule({.window_ms = window_, .idle = seconds(60)}, last);
  }
  // All marks that there are at `now_`.
  std::vector<LabelMark> Marks(LabelSchedule* schedule, bool ranges = true) {
    if (ranges) {
      schedule->OnRanges(now_, {0, events_begin_, events_.size(), sealed_},
                         {0, labels_begin_, labels_.size(), labels_sealed_});
    }
    std::vector<LabelMark> marks;
    while (true) {
      const auto next = schedule->Advance(now_);
      if (std::holds_alternative<LabelSchedule::Wait>(next)) return marks;
      if (const auto* mark = std::get_if<LabelMark>(&next)) marks.push_back(*mark);
      if (const auto* find = std::get_if<LabelSchedule::FindLabel>(&next)) {
        uint64_t at = labels_begin_;
        while (at < labels_.size() && !(labels_[at] && *labels_[at] >= find->since_ms)) ++at;
        schedule->OnLabel(at);
      }
      if (const auto* read = std::get_if<LabelSchedule::ReadEvents>(&next)) {
        EXPECT_LT(read->begin, read->end);
        schedule->OnEvents(Part(events_, read->begin, read->end));
      }
      if (const auto* read = std::get_if<LabelSchedule::ReadLabels>(&next)) {
        EXPECT_LT(read->begin, read->end);
        schedule->OnLabels(Part(labels_, read->begin, read->end));
      }
    }
  }
  // Returns at most three times, because a schedule may get only the first of those that it asked for.
  static std::span<const std::optional<int64_t>> Part(const Times& times, uint64_t begin, uint64_t end) {
    EXPECT_LE(end, times.size());
    return std::span(times).subspan(begin, std::min<uint64_t>(end - begin, 3));
  }

  int64_t window_ = kWindow;
  Times events_, labels_;
  uint64_t events_begin_ = 0, labels_begin_ = 0;
  bool sealed_ = false, labels_sealed_ = false;
  Time now_ = seconds(1000);
};

TEST_F(LabelScheduleTest, EventsAreReadyOnceALabelIsLaterThanTheirWindow) {
  auto schedule = Make();
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  events_ = {1000, 1050, 1060};
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  labels_ = {900, 950, 1100, 1060 + kWindow};
  EXPECT_THAT(Marks(&schedule), IsEmpty()) << "another label of that time may follow";
  labels_.push_back(1061 + kWindow);
  EXPECT_THAT(Marks(&schedule), ElementsAre(LabelMark{3, 0, 4}));
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  EXPECT_EQ(schedule.last(), (LabelMark{3, 0, 4}));
}

TEST_F(LabelScheduleTest, AStepIsAThirtySecondOfTheWindow) {
  events_ = {1000, 1100, 1101, 1201, 5000};
  labels_ = {1000, 1100, 1101, 1201, 4300, 4301, 4401, 4402, 8200, 8201};
  auto schedule = Make();
  EXPECT_THAT(Marks(&schedule), ElementsAre(LabelMark{2, 0, 5}, LabelMark{4, 0, 7}, LabelMark{5, 0, 9}));
}

TEST_F(LabelScheduleTest, LabelsBeforeTheLastSteps) {
  window_ = 320;
  for (int64_t t = 0; t < 2000; t += 20) events_.push_back(t);
  for (int64_t t = 0; t < 3000; t += 10) labels_.push_back(t);
  auto schedule = Make();
  const auto marks = Marks(&schedule);
  ASSERT_EQ(marks.size(), 100u);
  const LabelMark& last = marks.back();
  EXPECT_EQ(last.events, 100u);
  EXPECT_EQ(last.labels_end, uint64_t{(1980 + 320) / 10 + 1});
  EXPECT_GE(last.labels_begin, uint64_t{1980 / 10 - 8}) << "three steps, and one between two samples";
  EXPECT_LE(last.labels_begin, uint64_t{1980 / 10 - 6});
}

TEST_F(LabelScheduleTest, AnIdlePartitionIsWaitedForOnlySoLong) {
  auto schedule = Make();
  labels_ = {900, 1500};
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  now_ += seconds(50);
  events_ = {1000, 1050};
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  now_ += seconds(50);
  EXPECT_THAT(Marks(&schedule), IsEmpty()) << "the labels are idle, but the events have just come";
  now_ += seconds(9);
  events_.push_back(1060);  // an event of the same step
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  now_ += seconds(1);
  EXPECT_THAT(Marks(&schedule), ElementsAre(LabelMark{2, 0, 2})) << "the third has just come";
  now_ += seconds(58);
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  now_ += seconds(2);
  EXPECT_THAT(Marks(&schedule), ElementsAre(LabelMark{3, 0, 2}));

  now_ += seconds(1);
  events_.push_back(1070);
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  now_ += seconds(59);
  labels_.push_back(1600);
  EXPECT_THAT(Marks(&schedule), IsEmpty()) << "not idle";
  now_ += seconds(59);
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  now_ += seconds(1);
  EXPECT_THAT(Marks(&schedule), ElementsAre(LabelMark{4, 0, 3}));
}

// A step of a long window takes hours.
TEST_F(LabelScheduleTest, NoEventWaitsForTheRestOfItsStep) {
  window_ = 10'000'000;
  auto schedule = Make();
  labels_ = {900};
  uint64_t ready = 0;
  for (int64_t second = 0; second < 300; ++second) {
    events_.push_back(1000 + 1000 * second);
    for (const LabelMark& mark : Marks(&schedule)) ready = mark.events;
    EXPECT_LE(ready, static_cast<uint64_t>(std::max<int64_t>(0, second - 59)));
    EXPECT_GE(ready, static_cast<uint64_t>(std::max<int64_t>(0, second - 65)))
        << "they are looked at now and then";
    now_ += seconds(1);
  }
}

TEST_F(LabelScheduleTest, ASealedLabelPartitionIsNotWaitedFor) {
  auto schedule = Make();
  events_ = {1000, 1050};
  labels_ = {1000};
  labels_sealed_ = sealed_ = true;
  EXPECT_THAT(Marks(&schedule), ElementsAre(LabelMark{2, 0, 1}));
  EXPECT_TRUE(schedule.done());
}

TEST_F(LabelScheduleTest, EventsWithoutATimeWaitForNobody) {
  auto schedule = Make();
  events_ = {std::nullopt, std::nullopt};
  EXPECT_THAT(Marks(&schedule), ElementsAre(LabelMark{2, 0, 0}));
  events_ = {std::nullopt, std::nullopt, 1000, std::nullopt};
  labels_ = {900, std::nullopt, 1000, std::nullopt, 1001 + kWindow, std::nullopt};
  EXPECT_THAT(Marks(&schedule), ElementsAre(LabelMark{4, 0, 4}));
  events_.push_back(std::nullopt);
  EXPECT_THAT(Marks(&schedule), ElementsAre(LabelMark{5, 0, 4}));
}

TEST_F(LabelScheduleTest, ALateEventStillFindsItsLabels) {
  window_ = 3200;
  for (int64_t t = 10'000; t < 20'000; t += 10) events_.push_back(t);
  events_.push_back(19'700);  // 290 ms late
  for (int64_t t = 20'000; t < 21'000; t += 10) events_.push_back(t);
  for (int64_t t = 9000; t < 30'000; t += 5) labels_.push_back(t);
  auto schedule = Make();
  const auto marks = Marks(&schedule);
  const auto at = std::ranges::find_if(marks, [](const LabelMark& m) { return m.events > 1000; });
  ASSERT_NE(at, marks.end());
  EXPECT_LE(at->labels_begin, uint64_t{(19'700 - 9000) / 5});
  EXPECT_GE(at->labels_end, uint64_t{(19'700 + 3200 - 9000) / 5});
}

TEST_F(LabelScheduleTest, AnEventOfLongAgoDelaysNothing) {
  events_ = {5, 100'000, 100'010, 7, 100'020};
  for (int64_t t = 0; t < 110'000; t += 100) labels_.push_back(t);
  auto schedule = Make();
  const auto marks = Marks(&schedule);
  ASSERT_FALSE(marks.empty());
  EXPECT_EQ(marks.back().events, 5u);
  EXPECT_EQ(marks.back().labels_end, uint64_t{(100'020 + kWindow) / 100 + 1});
}

// An event that lies ahead is waited for, but labels of events after it are not missed.
TEST_F(LabelScheduleTest, AnEventThatLiesAheadMakesRangesLonger) {
  events_ = {1000, 1010, 90'000, 1020, 1030, 1200, 1400, 1600, 1800, 2000, 2200};
  for (int64_t t = 0; t < 100'000; t += 100) labels_.push_back(t);
  auto schedule = Make();
  const auto marks = Marks(&schedule);
  ASSERT_FALSE(marks.empty());
  EXPECT_EQ(marks.back().events, events_.size());
  uint64_t before = 0;
  for (const LabelMark& mark : marks) {
    for (uint64_t e = before; e < mark.events; ++e) {
      const auto t = static_cast<uint64_t>(*events_[e]);
      EXPECT_LE(mark.labels_begin, (t + 99) / 100) << e;
      EXPECT_GT(mark.labels_end, (t + uint64_t{kWindow}) / 100) << e;
    }
    before = mark.events;
  }
}

TEST_F(LabelScheduleTest, GoesOnAfterAMark) {
  for (int64_t t = 1000; t < 20'000; t += 7) events_.push_back(t);
  for (int64_t t = 500; t < 40'000; t += 11) labels_.push_back(t);
  auto whole = Make();
  const auto marks = Marks(&whole);
  ASSERT_GT(marks.size(), 20u);
  EXPECT_EQ(marks.back().events, events_.size());
  for (size_t i = 0; i < marks.size(); i += 5) {
    auto again = Make(marks[i]);
    const auto rest = Marks(&again);
    ASSERT_EQ(rest.size(), marks.size() - i - 1);
    for (size_t k = 0; k < rest.size(); ++k) {
      const LabelMark& first = marks[i + 1 + k];
      EXPECT_EQ(rest[k].events, first.events);
      EXPECT_EQ(rest[k].labels_end, first.labels_end);
      const auto earliest = static_cast<uint64_t>(*events_[marks[i + k].events]);
      EXPECT_LE(rest[k].labels_begin, (earliest - 500 + 10) / 11);
      EXPECT_GE(rest[k].labels_begin, marks[i].labels_begin);
      if (k > 4) {
        EXPECT_GT(rest[k].labels_begin, marks[i].labels_begin) << "labels of long ago";
      }
    }
  }
}

TEST_F(LabelScheduleTest, WhatRetentionHasRemovedIsSkipped) {
  for (int64_t t = 0; t < 100; ++t) events_.push_back(1000 + t);
  for (int64_t t = 0; t < 100; ++t) labels_.push_back(1000 + 100 * t);
  events_begin_ = 40;
  labels_begin_ = 5;
  auto schedule = Make();
  auto marks = Marks(&schedule);
  ASSERT_FALSE(marks.empty());
  EXPECT_EQ(marks.front().labels_begin, 5u);
  EXPECT_EQ(marks.back().events, 100u);
  sealed_ = true;
  events_begin_ = 100;
  schedule = Make({50, 7, 30});
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  EXPECT_TRUE(schedule.done());
}

TEST_F(LabelScheduleTest, LabelsFromBeforeAPauseAreSoonLeftOut) {
  auto schedule = Make();
  events_ = {1000};
  labels_ = {1000, 1010};
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  now_ += seconds(60);
  EXPECT_THAT(Marks(&schedule), ElementsAre(LabelMark{1, 0, 2}));
  for (int64_t i = 0; i < 8; ++i) events_.push_back(10'000'000 + 200 * i);
  EXPECT_THAT(Marks(&schedule), IsEmpty());
  now_ += seconds(60);
  auto marks = Marks(&schedule);
  ASSERT_EQ(marks.size(), 8u);
  EXPECT_EQ(marks.back(), (LabelMark{9, 2, 2})) << "retention may have removed both";
  labels_.push_back(*events_.back() + 1);
  for (int64_t i = 8; i < 16; ++i) events_.push_back(10'000'000 + 200 * i);
  labels_.push_back(20'000'000);
  marks = Marks(&schedule);
  ASSERT_FALSE(marks.empty());
  EXPECT_EQ(marks.front(), (LabelMark{10, 2, 3}));
  EXPECT_EQ(marks.back(), (LabelMark{17, 3, 3}));
}

TEST_F(LabelScheduleTest, ALabelThatIsNotThereYetIsNotInARange) {
  events_ = {1000};
  auto schedule = Make();
  schedule.OnRanges(now_, {0, 0, 1}, {0, 0, 0});
  ASSERT_TRUE(std::holds_alternative<LabelSchedule::ReadEvents>(schedule.Advance(now_)));
  schedule.OnEvents(Part(events_, 0, 1));
  ASSERT_TRUE(std::holds_alternative<LabelSchedule::FindLabel>(schedule.Advance(now_)));
  schedule.OnLabel(3);  // it is there, but not committed, or has come since
  now_ += seconds(60);
  EXPECT_THAT(Marks(&schedule), ElementsAre(LabelMark{1, 0, 0}));
}

// Marks of streams that are a bit out of order, as they grow: in order, never before a label has passed or
// the partition was idle, and with every label of their events that comes before that.
TEST_F(LabelScheduleTest, MarksOfRandomStreams) {
  const uint64_t seeds = LongTier() ? 2000 : 100;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    window_ = 1 + static_cast<int64_t>(rng.Below(4000));
    const auto disorder = static_cast<int64_t>(rng.Below(static_cast<uint64_t>(window_ / 64 + 1)));
    events_.clear();
    labels_.clear();
    sealed_ = labels_sealed_ = false;
    events_begin_ = labels_begin_ = 0;
    auto schedule = Make();
    std::vector<LabelMark> marks;
    int64_t event_time = 100'000, label_time = 100'000;
    for (int turn = 0; turn < 40; ++turn) {
      for (uint64_t n = rng.Below(60); n > 0; --n) {
        event_time += static_cast<int64_t>(rng.Below(1 + static_cast<uint64_t>(window_) / 20));
        const auto late = static_cast<int64_t>(rng.Below(static_cast<uint64_t>(disorder) + 1));
        events_.push_back(rng.Chance(0.05) ? std::nullopt : std::optional(event_time - late));
      }
      for (uint64_t n = rng.Below(60); n > 0; --n) {
        label_time += static_cast<int64_t>(rng.Below(1 + static_cast<uint64_t>(window_) / 20));
        labels_.push_back(rng.Chance(0.05) ? std::nullopt : std::optional(label_time));
      }
      now_ += seconds(1);
      for (const LabelMark& mark : Marks(&schedule)) {
        const LabelMark before = marks.empty() ? LabelMark() : marks.back();
        ASSERT_GT(mark.events, before.events);
        ASSERT_GE(mark.labels_begin, before.labels_begin);
        ASSERT_GE(mark.labels_end, before.labels_end);
        ASSERT_LE(mark.labels_end, labels_.size());
        marks.push_back(mark);
        for (uint64_t e = before.events; e < mark.events; ++e) {
          if (!events_[e]) continue;
          // Labels are in order here: the first that is too late ends those of the event.
          uint64_t end = 0;
          while (end < labels_.size() && (!labels_[end] || *labels_[end] <= *events_[e] + window_)) ++end;
          ASSERT_LT(end, labels_.size()) << "event " << e << " is not passed";
          ASSERT_GE(mark.labels_end, end);
          uint64_t begin = 0;
          while (begin < end && (!labels_[begin] || *labels_[begin] < *events_[e])) ++begin;
          ASSERT_LE(mark.labels_begin, begin) << "event " << e;
        }
      }
    }
    // At the end the labels stand still.
    sealed_ = true;
    for (int i = 0; i < 3; ++i) {
      now_ += seconds(60);
      for (const LabelMark& mark : Marks(&schedule)) marks.push_back(mark);
    }
    ASSERT_TRUE(schedule.done());
    ASSERT_EQ(marks.empty() ? 0 : marks.back().events, events_.size());
  }
}

}  // namespace
}  // namespace leat::stream

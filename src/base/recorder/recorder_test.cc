#include "base/recorder/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace leat::timeline {
namespace {

Span Numbered(uint64_t number) {
  return {.kind = Kind::kPush, .begin = Time(1), .end = Time(2), .number = number};
}

TEST(Recorder, RecordsBetweenBeginAndEnd) {
  Recorder recorder;
  Track* const a = recorder.MakeTrack("a");
  Track* const b = recorder.MakeTrack("b");
  a->Add(Numbered(1));
  EXPECT_FALSE(a->on());
  EXPECT_TRUE(recorder.Take().empty());
  recorder.Begin();
  EXPECT_TRUE(a->on());
  a->Add(Numbered(2));
  b->Add(Numbered(3));
  a->Add(Numbered(4));
  EXPECT_EQ(recorder.Take(),
            (std::vector<TrackSpans>{{"a", {Numbered(2), Numbered(4)}}, {"b", {Numbered(3)}}}));
  EXPECT_TRUE(recorder.Take().empty());
  a->Add(Numbered(5));
  recorder.End();
  a->Add(Numbered(6));
  EXPECT_EQ(recorder.Take(), (std::vector<TrackSpans>{{"a", {Numbered(5)}}}));
}

TEST(Recorder, WhatIsLeftOfARecordingIsNotInTheNext) {
  Recorder recorder;
  Track* const track = recorder.MakeTrack("a");
  recorder.Begin();
  track->Add(Numbered(1));
  recorder.End();
  recorder.Begin();
  EXPECT_TRUE(recorder.Take().empty());
}

TEST(Recorder, DropsWhatHasNoRoom) {
  Recorder recorder;
  Track* const track = recorder.MakeTrack("a");
  recorder.Begin();
  for (uint64_t i = 0; i < Track::kCapacity + 3; ++i) track->Add(Numbered(i));
  EXPECT_EQ(recorder.dropped(), 3u);
  const auto taken = recorder.Take();
  ASSERT_EQ(taken.at(0).spans.size(), Track::kCapacity);
  EXPECT_EQ(taken[0].spans.back().number, Track::kCapacity - 1) << "the first ones stay";
  track->Add(Numbered(7));
  EXPECT_EQ(recorder.Take().at(0).spans, (std::vector<Span>{Numbered(7)}));
  recorder.Begin();
  EXPECT_EQ(recorder.dropped(), 0u);
}

TEST(Recorder, ATrackThatIsMadeWhileItRecords) {
  Recorder recorder;
  recorder.Begin();
  Track* const track = recorder.MakeTrack("late");
  track->Add(Numbered(1));
  EXPECT_TRUE(recorder.Take().empty());
  recorder.Begin();
  track->Add(Numbered(2));
  EXPECT_EQ(recorder.Take().size(), 1u);
}

TEST(Recorder, ScopeMeasures) {
  Recorder recorder;
  Track* const track = recorder.MakeTrack("a");
  { Scope off(track, Kind::kDecode); }
  { Scope nowhere(nullptr, Kind::kDecode); }
  recorder.Begin();
  const Time before = MonotonicClock().Now();
  {
    Scope scope(track, Kind::kDecode);
    scope.span().bytes = 9;
  }
  const auto taken = recorder.Take();
  ASSERT_EQ(taken.size(), 1u);
  ASSERT_EQ(taken[0].spans.size(), 1u);
  const Span& span = taken[0].spans[0];
  EXPECT_EQ(span.kind, Kind::kDecode);
  EXPECT_EQ(span.bytes, 9u);
  EXPECT_LE(before, span.begin);
  EXPECT_LE(span.begin, span.end);
}

// A thread adds, another one takes, and recordings begin and end.
TEST(Recorder, Threads) {
  Recorder recorder;
  Track* const track = recorder.MakeTrack("a");
  std::atomic<bool> stop{false};
  std::thread adds([&] {
    for (uint64_t i = 1; !stop; ++i) {
      Span span = Numbered(i);
      span.bytes = ~i;
      track->Add(span);
    }
  });
  uint64_t taken = 0, last = 0;
  while (taken < 200'000) {
    recorder.Begin();
    for (int n = 0; n < 20; ++n) {
      for (const auto& row : recorder.Take()) {
        for (const Span& span : row.spans) {
          ASSERT_EQ(span.bytes, ~span.number);
          ASSERT_GT(span.number, last);
          last = span.number;
          ++taken;
        }
      }
    }
    recorder.End();
  }
  stop = true;
  adds.join();
}

}  // namespace
}  // namespace leat::timeline

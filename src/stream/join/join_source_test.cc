#include "stream/join/join_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/rng.h"
#include "base/testing.h"
#include "stream/inspect/peek.h"
#include "stream/join/testing.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Record = MemoryTopic::Record;
using Kind = Attribute::Kind;
using Texts = std::vector<std::string>;
using std::chrono::seconds;

constexpr uint64_t kAnyNumber = ~uint64_t{0};

class JoinSourceTest : public ::testing::Test {
 protected:
  JoinSourceTest() {
    events_->partitions.resize(1);
    labels_->partitions.resize(1);
  }
  std::unique_ptr<Source> Open() {
    const auto opener = [this](std::shared_ptr<MemoryTopic> topic) {
      return [this, topic]() -> Result<std::unique_ptr<TimedSource>> {
        if (topic == away_) return Status(Code::kUnavailable, "no broker");
        return std::unique_ptr<TimedSource>(std::make_unique<MemoryTimedSource>(topic));
      };
    };
    auto source = MakeJoinSource({.open_events = opener(events_),
                                  .open_labels = opener(labels_),
                                  .window_ms = window_,
                                  .idle = seconds(60),
                                  .label_bytes = label_bytes_,
                                  .clock = &clock_,
                                  .wall_ms = [this] { return wall_ms_; }});
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    return source.ok() ? std::move(*source) : nullptr;
  }
  static std::vector<PartitionRange> Ranges(Source& source) {
    auto ranges = source.Ranges();
    EXPECT_TRUE(ranges.ok()) << ranges.status().ToString();
    return ranges.ok() ? std::move(*ranges) : std::vector<PartitionRange>();
  }
  static std::vector<LabelMark> Marks(Source& source, uint32_t partition = 0) {
    const auto ranges = Ranges(source);
    return partition < ranges.size() ? ranges[partition].marks : std::vector<LabelMark>();
  }
  // The label of each event as "offset value", or "none".
  static Texts Labels(Source& source, uint64_t begin, uint64_t end, uint64_t labels_begin,
                      uint64_t labels_end, uint32_t partition = 0) {
    RecordBatch batch;
    batch.wanted = {{Kind::kLabel, ""}};
    batch.labels_begin = labels_begin;
    batch.labels_end = labels_end;
    const Status read = source.Read(partition, begin, end, &batch);
    EXPECT_TRUE(read.ok()) << read.ToString();
    EXPECT_EQ(batch.wanted.size(), 1u);
    EXPECT_EQ(batch.size(), end - begin);
    Texts texts;
    for (size_t i = 0; i < batch.size(); ++i) texts.push_back(LabelText(batch.Value(0, i)));
    return texts;
  }
  static std::string LabelText(std::optional<ByteView> value) {
    if (!value) return "none";
    uint64_t offset = 0;
    EXPECT_GE(value->size(), sizeof(offset));
    std::memcpy(&offset, value->data(), sizeof(offset));
    return std::to_string(offset) + " " + std::string(AsText(value->subspan(sizeof(offset))));
  }
  std::vector<Record>& events(uint32_t partition = 0) { return events_->partitions.at(partition).records; }
  std::vector<Record>& labels(uint32_t partition = 0) { return labels_->partitions.at(partition).records; }
  // The join by the rule, as a loop in a loop.
  std::string Expected(const Record& event, uint64_t labels_begin, uint64_t labels_end) {
    if (event.absent || !event.key || !event.time) return "none";
    for (uint64_t o = labels_begin; o < labels_end; ++o) {
      const Record& label = labels()[o];
      if (label.absent || label.value.empty() || !label.time || label.key != event.key) continue;
      if (*label.time >= *event.time && *label.time <= *event.time + window_)
        return std::to_string(o) + " " + label.value;
    }
    return "none";
  }
  // Records with few keys and times that ascend, but for some. Without disorder they all do.
  static std::vector<Record> RandomRecords(Rng* rng, size_t count, uint64_t apart, uint64_t disorder) {
    std::vector<Record> records;
    int64_t time = 1'000'000;
    for (size_t i = 0; i < count; ++i) {
      time += static_cast<int64_t>(rng->Below(2 * apart));
      Record record{"k" + std::to_string(rng->Below(30)),
                    time - static_cast<int64_t>(rng->Below(disorder + 1)), std::to_string(i)};
      if (rng->Chance(0.03)) record.key.reset();
      if (rng->Chance(0.03)) record.time.reset();
      if (rng->Chance(0.03)) record.value.clear();
      record.absent = rng->Chance(0.05);
      records.push_back(std::move(record));
    }
    return records;
  }

  int64_t window_ = 3200;
  uint64_t label_bytes_ = 1 << 20;
  int64_t wall_ms_ = int64_t{1} << 40;
  ManualClock clock_;
  std::shared_ptr<MemoryTopic> events_ = std::make_shared<MemoryTopic>();
  std::shared_ptr<MemoryTopic> labels_ = std::make_shared<MemoryTopic>();
  std::shared_ptr<MemoryTopic> away_;  // cannot be opened
};

TEST_F(JoinSourceTest, AReadJoinsTheLabelsOfItsRange) {
  events() = {{"a", 1000, "one"}, {"b", 1000, "two"}, {std::nullopt, 1000, "three"}, {"a", 1400, "four"}};
  labels() = {{"b", 900, "early"}, {"a", 1500, "A"}, {"b", 1600, "B"}, {"a", 9000, "late"}};
  const auto source = Open();
  EXPECT_THAT(Labels(*source, 0, 4, 0, 4), ElementsAre("1 A", "2 B", "none", "1 A"));
  EXPECT_THAT(Labels(*source, 0, 4, 0, 2), ElementsAre("1 A", "none", "none", "1 A"));
  EXPECT_THAT(Labels(*source, 1, 3, 2, 4), ElementsAre("2 B", "none"));
  EXPECT_THAT(Labels(*source, 0, 1, 2, 2), ElementsAre("none"));
  EXPECT_THAT(Labels(*source, 2, 2, 0, 4), IsEmpty());
}

TEST_F(JoinSourceTest, OtherAttributesAreThoseOfTheEvents) {
  events() = {{"a", 1000, "one"}, {std::nullopt, 1001, "two"}};
  labels() = {{"a", 1500, "A"}};
  const auto source = Open();
  RecordBatch batch;
  batch.wanted = {{Kind::kTimestamp, ""}, {Kind::kLabel, ""}, {Kind::kKey, ""}};
  batch.labels_end = 1;
  const auto wanted = batch.wanted;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(source->Read(0, 0, 2, &batch).ok());
    EXPECT_EQ(batch.wanted, wanted);
    EXPECT_EQ(batch.labels_end, 1u);
    ASSERT_EQ(batch.attributes.size(), 3u);
    EXPECT_EQ(TextsOf(batch), (Texts{"one", "two"}));
    EXPECT_EQ(TimeOf(batch.Value(0, 0)), 1000);
    EXPECT_EQ(TimeOf(batch.Value(0, 1)), 1001);
    EXPECT_EQ(LabelText(batch.Value(1, 0)), "0 A");
    EXPECT_EQ(batch.Value(1, 1), std::nullopt);
    EXPECT_EQ(AsText(batch.Value(2, 0).value()), "a");
    EXPECT_EQ(batch.Value(2, 1), std::nullopt);
  }
  // A reader that wants no label reads none.
  batch.wanted = {{Kind::kKey, ""}};
  const uint64_t reads = labels_->reads;
  ASSERT_TRUE(source->Read(0, 0, 2, &batch).ok());
  EXPECT_EQ(AsText(batch.Value(0, 0).value()), "a");
  EXPECT_EQ(labels_->reads, reads);
}

TEST_F(JoinSourceTest, WhatCannotBeReadIsAnError) {
  events() = {{"a", 1000, "one"}};
  labels() = {{"a", 1000, "A"}, {"a", 1000, "B"}};
  const auto source = Open();
  RecordBatch batch;
  batch.wanted = {{Kind::kLabel, ""}};
  const auto read = [&](uint64_t end, uint64_t labels_begin, uint64_t labels_end) {
    batch.labels_begin = labels_begin;
    batch.labels_end = labels_end;
    const Code code = source->Read(0, 0, end, &batch).code();
    EXPECT_EQ(batch.wanted.size(), 1u);
    EXPECT_EQ(batch.data.size(), batch.offsets.back() + RecordBatch::kPadding);
    return code;
  };
  EXPECT_EQ(read(2, 0, 1), Code::kFailedPrecondition);
  EXPECT_EQ(read(1, 0, 3), Code::kFailedPrecondition);
  EXPECT_EQ(batch.size(), 0u);
  EXPECT_EQ(read(1, 2, 1), Code::kInvalidArgument);
  labels_->partitions[0].begin = 1;
  EXPECT_EQ(read(1, 0, 2), Code::kNotFound);
  EXPECT_EQ(read(1, 1, 2), Code::kOk);
  EXPECT_EQ(LabelText(batch.Value(0, 0)), "1 B");
}

TEST_F(JoinSourceTest, FindsWhatALoopFindsWithinAnyMemory) {
  const uint64_t seeds = LongTier() ? 300 : SeedsOf(30);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    events() = RandomRecords(&rng, 400, 20, 200);
    labels() = RandomRecords(&rng, 400, 20, 200);
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{5000}, uint64_t{1} << 30}) {
      label_bytes_ = bytes;
      const auto source = Open();
      for (int i = 0; i < 30; ++i) {
        const uint64_t begin = rng.Below(400), end = begin + rng.Below(401 - begin);
        const uint64_t labels_begin = rng.Below(400);
        const uint64_t labels_end = labels_begin + rng.Below(401 - labels_begin);
        Texts expected;
        for (uint64_t e = begin; e < end; ++e)
          expected.push_back(Expected(events()[e], labels_begin, labels_end));
        ASSERT_EQ(Labels(*source, begin, end, labels_begin, labels_end), expected);
      }
    }
  }
}

TEST_F(JoinSourceTest, LabelsAreReadOnceWhileRangesMoveOn) {
  Rng rng(1);
  events() = RandomRecords(&rng, 10'000, 5, 0);
  labels() = RandomRecords(&rng, 10'000, 5, 0);
  label_bytes_ = 1 << 30;
  const auto source = Open();
  for (uint64_t at = 0; at < 9000; at += 100)
    (void)Labels(*source, at, at + 100, at, std::min<uint64_t>(10'000, at + 1000));
  EXPECT_LE(labels_->reads, 10'000u);
}

TEST_F(JoinSourceTest, ThereAreNoMarksUntilTheyAreWanted) {
  events() = {{"a", 1000, "one"}};
  labels() = {{"b", 9000, "B"}};
  const auto source = Open();
  events_->sealed = true;
  EXPECT_THAT(Ranges(*source), ElementsAre(PartitionRange{0, 0, 1, true}));
  source->WantMarks(0, {}, kAnyNumber);
  EXPECT_THAT(Ranges(*source), ElementsAre(PartitionRange{0, 0, 1, true, {{1, 0, 0}}}));
  EXPECT_THAT(Ranges(*source), ElementsAre(PartitionRange{0, 0, 1, true}));
  source->WantMarks(0, {1, 0, 0}, kAnyNumber);
  EXPECT_THAT(Ranges(*source), ElementsAre(PartitionRange{0, 0, 1, true})) << "it is there already";
  source->WantMarks(0, {}, kAnyNumber);
  EXPECT_THAT(Ranges(*source), ElementsAre(PartitionRange{0, 0, 1, true, {{1, 0, 0}}}));
}

TEST_F(JoinSourceTest, APartitionIsSealedWithItsLastMark) {
  events_->sealed = true;
  events() = {{"a", 1000, "one"}};
  const auto source = Open();
  source->WantMarks(0, {}, kAnyNumber);
  EXPECT_THAT(Ranges(*source), ElementsAre(PartitionRange{0, 0, 1, false}));
  clock_.Advance(seconds(59));
  EXPECT_THAT(Ranges(*source), ElementsAre(PartitionRange{0, 0, 1, false}));
  clock_.Advance(seconds(1));
  EXPECT_THAT(Ranges(*source), ElementsAre(PartitionRange{0, 0, 1, true, {{1, 0, 0}}}));
}

TEST_F(JoinSourceTest, EventsDoNotGoWithoutLabelsThatCannotBeSeen) {
  events_->partitions.resize(2);
  labels_->partitions.resize(2);
  for (const uint32_t p : {0u, 1u}) events(p) = {{"a", 1000, "one"}};
  labels_->partitions[1].unasked = "no leader";
  const auto source = Open();
  for (const uint32_t p : {0u, 1u}) source->WantMarks(p, {}, kAnyNumber);
  (void)Ranges(*source);
  clock_.Advance(seconds(600));
  auto found = Ranges(*source);
  EXPECT_THAT(found[0].marks, ElementsAre(LabelMark{1, 0, 0})) << "no label comes any more";
  EXPECT_THAT(found[1].marks, IsEmpty()) << "labels may have come meanwhile";
  EXPECT_EQ(found[1].unasked, "no leader");
  labels(1) = {{"a", 1001, "A"}, {"b", 70'000, "B"}};
  labels_->partitions[1].unasked.clear();
  found = Ranges(*source);
  ASSERT_THAT(found[1].marks, ElementsAre(LabelMark{1, 0, 1}));
}

TEST_F(JoinSourceTest, APartitionWaitsForThatOfItsLabels) {
  const auto source = Open();
  events() = {{"a", 1000, "one"}};
  labels() = {{"b", 9000, "B"}};
  source->WantMarks(0, {}, kAnyNumber);
  EXPECT_THAT(Marks(*source), ElementsAre(LabelMark{1, 0, 0}));
  events_->partitions.resize(3);
  events(1) = {{"a", 1000, "one"}};
  events_->sealed = true;
  EXPECT_THAT(Ranges(*source), ElementsAre(PartitionRange{0, 0, 1, true}, PartitionRange{1, 0, 1, false},
                                           PartitionRange{2, 0, 0, true}));
  labels_->partitions.resize(2);
  labels(1) = {{"b", 9000, "B"}};
  EXPECT_THAT(Marks(*source, 1), IsEmpty()) << "nobody wants them";
  source->WantMarks(1, {}, kAnyNumber);
  EXPECT_THAT(Marks(*source, 1), ElementsAre(LabelMark{1, 0, 0}));
}

TEST_F(JoinSourceTest, AReportThatFailsLosesNoMark) {
  for (int64_t i = 0; i < 10; ++i) events().push_back({"a", 10'000 * i, "one"});
  for (int64_t i = 0; i < 10'000; ++i) labels().push_back({"b", 10 * i, "B"});  // are read in three parts
  const auto source = Open();
  source->WantMarks(0, {}, kAnyNumber);
  std::vector<LabelMark> marks;
  uint64_t failed = 0;
  for (uint64_t call = 0; call < 12; ++call) {
    labels_->fails_after = call % 6;
    const auto ranges = source->Ranges();
    failed += !ranges.ok() || !(*ranges)[0].unasked.empty();
    if (ranges.ok()) marks.insert(marks.end(), (*ranges)[0].marks.begin(), (*ranges)[0].marks.end());
  }
  EXPECT_GT(failed, 2u);
  ASSERT_EQ(marks.size(), 10u);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(marks[i].events, i + 1);
}

TEST_F(JoinSourceTest, ATopicThatIsAwayForAMomentIsOpenedLater) {
  events() = {{"a", 1000, "one"}};
  labels() = {{"b", 9000, "B"}};
  const auto source = Open();
  source->WantMarks(0, {}, kAnyNumber);
  for (const auto& topic : {events_, labels_, labels_}) {
    away_ = topic;
    EXPECT_EQ(source->Ranges().status().code(), Code::kUnavailable);
  }
  away_.reset();
  EXPECT_THAT(Marks(*source), ElementsAre(LabelMark{1, 0, 0}));
}

TEST_F(JoinSourceTest, AReportOfManyPartitionsTakesNoLonger) {
  constexpr uint32_t kPartitions = 20;
  events_->partitions.resize(kPartitions);
  labels_->partitions.resize(kPartitions);
  const auto source = Open();
  for (uint32_t p = 0; p < kPartitions; ++p) {
    events(p) = {{"a", 1000, "one"}};
    labels(p) = {{"b", 9000, "B"}};
    source->WantMarks(p, {}, kAnyNumber);
  }
  events_->before_times = [this] { clock_.Advance(std::chrono::milliseconds(200)); };
  std::vector<size_t> marks(kPartitions);
  for (int report = 0; report < 20; ++report) {
    const Time before = clock_.Now();
    for (const auto& range : Ranges(*source)) marks[range.partition] += range.marks.size();
    EXPECT_LE(clock_.Now() - before, std::chrono::milliseconds(600)) << "that is begun within half a second";
  }
  EXPECT_THAT(marks, Each(1u)) << "each has had its turn";
}

TEST_F(JoinSourceTest, AReportHasOnlySoManyMarks) {
  for (int64_t i = 0; i < 1000; ++i) events().push_back({"a", 10'000 * i, "one"});
  labels() = {{"b", 90'000'000, "B"}};
  const auto source = Open();
  source->WantMarks(0, {}, kAnyNumber);
  std::vector<size_t> counts;
  for (int i = 0; i < 5; ++i) counts.push_back(Marks(*source).size());
  EXPECT_THAT(counts, ElementsAre(kMostMarks, kMostMarks, kMostMarks, 1000 - 3 * kMostMarks, 0));
}

TEST_F(JoinSourceTest, ReportsHaveNoMoreMarksThanThereIsRoomFor) {
  for (int64_t i = 0; i < 100; ++i) events().push_back({"a", 10'000 * i, "one"});
  labels() = {{"b", 90'000'000, "B"}};
  events_->sealed = true;
  const auto source = Open();
  source->WantMarks(0, {}, 60);
  const auto first = Marks(*source);
  ASSERT_EQ(first.size(), 60u);
  EXPECT_THAT(Ranges(*source), ElementsAre(PartitionRange{0, 0, 100, false})) << "until more are wanted";
  source->WantMarks(0, first.back(), 30);
  EXPECT_EQ(Marks(*source).size(), 30u);
  source->WantMarks(0, first[9], 1000);
  const auto rest = Ranges(*source)[0];
  ASSERT_EQ(rest.marks.size(), 90u) << "from the last one that the caller has";
  EXPECT_EQ(rest.marks[0], first[10]);
  EXPECT_TRUE(rest.sealed);
}

TEST_F(JoinSourceTest, TimesFarAheadOfTheClockAreNone) {
  wall_ms_ = 10'000'000;
  events() = {{"a", 1000, "one"}, {"a", wall_ms_ + kMostAheadMs + 1, "ahead"}, {"a", 1001, "three"}};
  labels() = {{"a", 1500, "A"}, {"a", int64_t{1} << 50, "ahead"}, {"a", 1600, "B"}};
  const auto source = Open();
  source->WantMarks(0, {}, kAnyNumber);
  EXPECT_THAT(Marks(*source), IsEmpty());
  labels().push_back({"b", 5000, "B"});
  EXPECT_THAT(Marks(*source), ElementsAre(LabelMark{3, 0, 3}));
}

// The clock of a host whose battery is empty, or that was stopped for a while.
TEST_F(JoinSourceTest, RecordsWaitForAClockThatIsBehind) {
  constexpr int64_t kNow = 1'800'000'000'000;
  for (const int64_t clock : {int64_t{0}, kNow - kMostAheadMs - 600'000}) {
    wall_ms_ = clock;
    events() = {{"a", kNow, "one"}, {"b", kNow + 10, "two"}};
    labels() = {{"x", kNow - 5, "X"}};
    const auto source = Open();
    source->WantMarks(0, {}, kAnyNumber);
    for (int i = 0; i < 3; ++i) {
      const auto range = Ranges(*source)[0];
      EXPECT_THAT(range.marks, IsEmpty());
      EXPECT_THAT(range.unasked, HasSubstr("the clock says " + ShownTime(wall_ms_)));
      EXPECT_THAT(range.unasked, HasSubstr("partition 0 at " + ShownTime(kNow)));
      clock_.Advance(seconds(120));  // longer than labels may be idle
      wall_ms_ += 120'000;
    }
    labels().insert(labels().end(), {{"b", kNow + 20, "B"}, {"a", kNow + 30, "A"}, {"z", kNow + 9000, "Z"}});
    EXPECT_THAT(Marks(*source), IsEmpty());
    wall_ms_ = kNow;
    clock_.Advance(seconds(2));
    const auto range = Ranges(*source)[0];
    EXPECT_EQ(range.unasked, "");
    ASSERT_THAT(range.marks, ElementsAre(LabelMark{2, 0, 3}));
    EXPECT_THAT(Labels(*source, 0, 2, 0, 3), ElementsAre("2 A", "1 B"));
  }
}

// Events of before the jump wait for labels of after it.
TEST_F(JoinSourceTest, AClockThatJumpsBackLosesNoLabel) {
  wall_ms_ = 1'800'000'000'000;
  events() = {{"a", wall_ms_, "one"}};
  const auto source = Open();
  source->WantMarks(0, {}, kAnyNumber);
  EXPECT_THAT(Marks(*source), IsEmpty());
  const int64_t right = wall_ms_;
  wall_ms_ -= 2 * kMostAheadMs;
  std::ostringstream log;
  const auto former = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  labels() = {{"x", right + 5, "X"}, {"a", right + 10, "A"}};
  events().push_back({"b", right + 20, "two"});
  EXPECT_THAT(Ranges(*source)[0].unasked, HasSubstr(ShownTime(right + 5)));
  spdlog::set_default_logger(former);
  EXPECT_THAT(log.str(), HasSubstr("the clock has jumped from " + ShownTime(right) + " to " +
                                   ShownTime(right - 2 * kMostAheadMs)));
  clock_.Advance(seconds(60));
  const auto idle = Marks(*source);
  ASSERT_THAT(idle, ElementsAre(LabelMark{1, 0, 2})) << "nothing has come for a minute";
  EXPECT_THAT(Labels(*source, 0, 1, 0, 2), ElementsAre("1 A"));
  labels().insert(labels().end(), {{"b", right + 30, "B"}, {"z", right + 9000, "Z"}});
  wall_ms_ = right;
  clock_.Advance(seconds(2));
  const auto marks = Marks(*source);
  ASSERT_THAT(marks, ElementsAre(LabelMark{2, 0, 3}));
  EXPECT_THAT(Labels(*source, 1, 2, marks[0].labels_begin, 3), ElementsAre("2 B"));
}

TEST_F(JoinSourceTest, ManyRecordsAheadOfTheClockAreStraysIfTheNewestAreNot) {
  wall_ms_ = 10'000'000;
  for (int i = 0; i < 5000; ++i) events().push_back({"a", int64_t{1} << 50, "in microseconds"});
  for (int i = 0; i < 100; ++i) events().push_back({"a", 1000, "one"});
  labels() = {{"b", 9000, "B"}};
  const auto source = Open();
  source->WantMarks(0, {}, kAnyNumber);
  const auto range = Ranges(*source)[0];
  ASSERT_FALSE(range.marks.empty());
  EXPECT_EQ(range.marks.back().events, 5100u);
  EXPECT_EQ(range.unasked, "");
}

// Events and labels in order, as they come: every event is joined with the label that it would be joined with
// if the whole topics were known, whatever was restarted on the way.
TEST_F(JoinSourceTest, MarksJoinWhatTheWholeTopicsWould) {
  const uint64_t seeds = LongTier() ? 300 : SeedsOf(30);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto all_events = RandomRecords(&rng, 500, 40, 0), all_labels = RandomRecords(&rng, 600, 40, 0);
    events().clear();
    labels().clear();
    events_->sealed = false;
    auto source = Open();
    source->WantMarks(0, {}, kAnyNumber);
    LabelMark last;
    Texts joined;
    for (int turn = 0; turn < 1000 && joined.size() < all_events.size(); ++turn) {
      const auto grow = [&](const std::vector<Record>& all, std::vector<Record>* now) {
        const size_t end = std::min<size_t>(all.size(), now->size() + rng.Below(20));
        now->insert(now->end(), all.begin() + static_cast<ptrdiff_t>(now->size()),
                    all.begin() + static_cast<ptrdiff_t>(end));
      };
      grow(all_events, &events());
      grow(all_labels, &labels());
      clock_.Advance(seconds(1));
      const bool all = events().size() == all_events.size() && labels().size() == all_labels.size();
      if (all) clock_.Advance(seconds(60));
      if (rng.Chance(0.1) && !all) {
        source = Open();
        source->WantMarks(0, last, kAnyNumber);
      }
      for (const LabelMark& mark : Marks(*source)) {
        ASSERT_GT(mark.events, last.events);
        ASSERT_GE(mark.labels_begin, last.labels_begin);
        ASSERT_GE(mark.labels_end, last.labels_end);
        const Texts part = Labels(*source, last.events, mark.events, mark.labels_begin, mark.labels_end);
        joined.insert(joined.end(), part.begin(), part.end());
        last = mark;
      }
    }
    labels() = all_labels;
    ASSERT_EQ(joined.size(), all_events.size());
    for (size_t e = 0; e < all_events.size(); ++e)
      ASSERT_EQ(joined[e], Expected(all_events[e], 0, all_labels.size())) << "event " << e;
  }
}

}  // namespace
}  // namespace leat::stream

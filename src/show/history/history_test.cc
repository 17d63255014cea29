#include "show/history/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding/printable.h"
#include "base/fields/files/testing.h"
#include "base/fields/testing.h"
#include "show/history/history_file.h"
#include "show/history/testing.h"

namespace leat::observe {
namespace {

using ::testing::ElementsAre;

std::vector<double> Times(const std::vector<Sample>& samples) {
  std::vector<double> times;
  for (const Sample& sample : samples) times.push_back(sample.time_s);
  return times;
}

TEST(HistoryTest, SecondsForAnHourAndMinutesBeyond) {
  History history;
  constexpr int kHours = 3;
  for (int t = 1; t <= kHours * 3600; ++t) history.Add(SampleAt(t, static_cast<float>(t)));
  EXPECT_EQ(history.fine().size(), 3600u);
  EXPECT_EQ(history.fine().front().time_s, 2 * 3600 + 1);
  EXPECT_EQ(history.coarse().size(), kHours * 60u);
  EXPECT_EQ(history.coarse()[1].time_s, 119);
  EXPECT_EQ(history.coarse()[1].span_s, 60);
  EXPECT_EQ(history.coarse()[1][Series::kLoss], (60 + 119) / 2.0f);
  EXPECT_EQ(history.begin_s(), 0);
  EXPECT_EQ(history.end_s(), kHours * 3600);
}

TEST(HistoryTest, MemoryIsBoundedWhateverTheNumberOfMembersAndTheDuration) {
  History history;
  constexpr size_t kLimit = 16 << 20;
  // Four days, after an hour in seconds of a job with many members.
  for (int t = 1; t <= 4000; ++t) history.Add(SampleAt(t, 1, 200));
  EXPECT_EQ(history.fine().size(), 3600u) << "a whole hour fits";
  EXPECT_EQ(history.fine().back().members.size(), History::Limits().members);
  for (int t = 1; t <= 4 * 24 * 60; ++t) {
    Sample sample = SampleAt(4000 + 60 * t, 1, 50);
    sample.span_s = 60;
    history.Add(std::move(sample));
  }
  for (int i = 0; i < 5000; ++i) {
    history.Add(Event{.text = std::string(10'000, 'x')});
    history.Add(Event{.kind = Event::Kind::kDeadLetter, .text = std::string(10'000, 'x')});
  }
  EXPECT_LT(history.bytes(), kLimit);
  EXPECT_EQ(history.begin_s(), 0) << "the oldest samples become longer, and none is lost";
  EXPECT_GT(history.coarse().front().span_s, 60);
  EXPECT_LE(history.coarse().back().span_s, 60);
  double covered = 0;
  for (const Sample& sample : history.coarse()) covered += static_cast<double>(sample.span_s);
  EXPECT_NEAR(covered, 4000 + 4 * 24 * 3600, 100);
}

TEST(HistoryTest, TheLimitOfBytesHoldsBeforeThatOfTime) {
  History history({.fine_bytes = 10 * sizeof(Sample)});
  for (int t = 1; t <= 100; ++t) history.Add(SampleAt(t));
  EXPECT_EQ(history.fine().size(), 10u);
}

TEST(HistoryTest, SamplesThatAreNotLaterAreIgnored) {
  History history;
  history.Add(SampleAt(10));
  history.Add(SampleAt(10));
  history.Add(SampleAt(9));
  history.Add(SampleAt(kUnknown));
  EXPECT_EQ(history.fine().size(), 1u);
}

TEST(HistoryTest, WhatIsKeptOfASampleIsToldAndMinutesAreLimitedToo) {
  History history;
  const Sample* kept = history.Add(SampleAt(1, 1, 1000));
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->members.size(), History::Limits().members);
  EXPECT_EQ(history.Add(SampleAt(1)), nullptr);
  const size_t bytes = history.bytes();
  // Seconds of one minute, each with other members.
  for (uint32_t i = 0; i < 50; ++i) {
    Sample sample = SampleAt(2 + i, 1, 1);
    sample.members[0].index = 5000 - i;
    history.Add(std::move(sample));
  }
  EXPECT_LT(history.bytes() - bytes, 100 * sizeof(Sample)) << "a minute is one sample from the start";
  history.Add(SampleAt(61));
  EXPECT_EQ(history.coarse().at(0).members.size(), History::Limits().members);
}

TEST(HistoryTest, QueriesMergeSamples) {
  History history;
  for (int t = 1; t <= 100; ++t) history.Add(SampleAt(t, static_cast<float>(t)));
  EXPECT_THAT(Times(history.Query(95, 100, 100)), ElementsAre(96, 97, 98, 99, 100));
  const auto merged = history.Query(80, 100, 4);
  EXPECT_THAT(Times(merged), ElementsAre(85, 90, 95, 100));
  EXPECT_EQ(merged[0][Series::kLoss], 83);
  EXPECT_THAT(Times(history.Query(200, 300, 10)), ElementsAre());
  EXPECT_THAT(Times(history.Query(5, 5, 10)), ElementsAre());
  EXPECT_THAT(Times(history.Query(0, 100, 0)), ElementsAre());
  EXPECT_EQ(history.Query(kUnknown, 100, 10).size(), 0u);
}

TEST(HistoryTest, QueriesOfLongRangesHaveMinutesThenSeconds) {
  History history({.fine_s = 100});
  for (int t = 1; t <= 1000; ++t) history.Add(SampleAt(t));
  const auto all = history.Query(0, 1000, 100000);
  EXPECT_EQ(all.front().time_s, 59);
  EXPECT_EQ(all.back().time_s, 1000);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GT(all[i].time_s, all[i - 1].time_s);
}

TEST(HistoryTest, EventsHaveNumbersAndDeadLettersDoNotPushThemOut) {
  History history({.events = 3, .dead_letters = 2});
  for (int i = 0; i < 5; ++i) {
    history.Add(Event{.text = "event"});
    history.Add(Event{.kind = Event::Kind::kDeadLetter, .text = "dead"});
  }
  const auto numbers = [&](uint64_t after, size_t limit) {
    std::vector<uint64_t> found;
    for (const Event& event : history.EventsAfter(after, limit)) found.push_back(event.number);
    return found;
  };
  EXPECT_THAT(numbers(0, 100), ElementsAre(5, 7, 8, 9, 10));
  EXPECT_THAT(numbers(8, 100), ElementsAre(9, 10));
  EXPECT_THAT(numbers(0, 2), ElementsAre(9, 10));
  EXPECT_THAT(numbers(10, 100), ElementsAre());
}

// ---- files

Bytes Encoded(const History& history, const StoredStatus& status = {}) {
  ByteWriter out;
  EXPECT_TRUE(Encode(history, status, [&out](ByteView piece) {
                out.PutRaw(piece);
                return Status();
              }).ok());
  return out.Take();
}

struct Decoded {
  History history;
  StoredStatus status;
  size_t position = 0;
  bool damaged = false;
};
Decoded Decode(ByteView bytes) {
  Decoded decoded;
  RecordReader reader(bytes);
  while (auto record = reader.Next()) Apply(std::move(*record), &decoded.history, &decoded.status);
  decoded.position = reader.position();
  decoded.damaged = reader.damaged();
  return decoded;
}

History Filled() {
  History history;
  for (int t = 1; t <= 5000; ++t) history.Add(SampleAt(t, static_cast<float>(t), 3));
  history.Add(
      Event{.kind = Event::Kind::kDied, .time_s = 7, .member = "worker 3", .node = 9, .text = "it died"});
  history.Add(Event{.kind = Event::Kind::kDeadLetter, .time_s = 8, .text = "\xff<b>"});
  return history;
}

TEST(RecordsTest, AHistoryIsTheSameAfterItWasRead) {
  const History history = Filled();
  const Bytes bytes = Encoded(history, {12.5, "{\"job\": 1}"});
  const Decoded decoded = Decode(bytes);
  EXPECT_FALSE(decoded.damaged);
  EXPECT_EQ(decoded.position, bytes.size());
  EXPECT_EQ(decoded.status.time_s, 12.5);
  EXPECT_EQ(decoded.status.json, "{\"job\": 1}");
  EXPECT_EQ(decoded.history.coarse().size(), history.coarse().size());
  EXPECT_EQ(decoded.history.fine().size(), history.fine().size());
  EXPECT_EQ(Encoded(decoded.history, decoded.status), bytes);
  ASSERT_EQ(decoded.history.events().size(), 1u);
  EXPECT_EQ(decoded.history.events()[0].text, "it died");
  EXPECT_EQ(decoded.history.events()[0].member, "worker 3");
  EXPECT_EQ(decoded.history.dead_letters()[0].text, "\xff<b>");
  EXPECT_EQ(decoded.history.last_event(), 2u);
}

TEST(RecordsTest, WhatWasBeforeADamageIsRead) {
  const Bytes bytes = Encoded(Filled());
  for (const size_t cut : {size_t{0}, size_t{3}, size_t{8}, size_t{100}, bytes.size() - 1}) {
    const Decoded decoded = Decode(ByteView(bytes).first(cut));
    EXPECT_FALSE(decoded.damaged) << "it may still grow; cut at " << cut;
    EXPECT_LE(decoded.position, cut);
  }
  Bytes damaged = bytes;
  damaged[bytes.size() / 2] ^= std::byte{1};
  const Decoded decoded = Decode(damaged);
  EXPECT_TRUE(decoded.damaged);
  EXPECT_GT(decoded.position, bytes.size() / 2 - 500);
  EXPECT_LE(decoded.position, bytes.size() / 2);
  EXPECT_TRUE(Decode(AsBytes("something else")).damaged);
}

TEST(RecordsTest, AStatusThatIsTooLargeIsLeftOut) {
  const Decoded decoded = Decode(Encoded(Filled(), {12.5, std::string(kMaxRecordBytes, 'x')}));
  EXPECT_FALSE(decoded.damaged);
  EXPECT_EQ(decoded.status.json, "");
  EXPECT_EQ(Decode(Encoded(Filled(), {12.5, std::string(kMaxStatusBytes, 'x')})).status.time_s, 12.5);
}

Bytes FrameOf(ByteView payload) {
  ByteWriter frame;
  frame.Put(static_cast<uint32_t>(payload.size()));
  frame.Put(Checksum(payload));
  frame.PutRaw(payload);
  return frame.Take();
}

Sample Example() {
  Sample sample = SampleAt(1.5, 0.25f, 2);
  sample.members[1].role = MemberSample::Role::kServer;
  sample.members[1].index = 300;
  for (size_t i = 0; i < kSeries; ++i) sample.figures[i] = static_cast<float>(i);
  return sample;
}

TEST(RecordsTest, EachRecordHasItsBytes) {
  const auto payload = [](const Record& record) {
    ByteWriter out;
    Append(record, &out);
    const ByteView bytes = out.view().subspan(12);
    EXPECT_TRUE(std::ranges::equal(out.view(), FrameOf(bytes)));
    return ToHex(bytes);
  };
  const std::string sample =
      "000000000000f83f0000803f13"
      "000000000000803f0000004000004040000080400000a0400000c0400000e0400000004100001041"
      "000020410000304100004041000050410000604100007041000080410000884100009041"
      "020000000000000000000000000000000000000000000000000000"
      "01ac020000803f0000803f0000803f0000803f0000803f0000803f";
  EXPECT_EQ(payload(Example()), "01" + sample);
  EXPECT_EQ(payload(CoarseSample{Example()}), "02" + sample);
  EXPECT_EQ(payload(Event{.kind = Event::Kind::kDeadLetter,
                          .number = 300,
                          .time_s = 1.5,
                          .member = "worker 3",
                          .node = 9,
                          .text = "a"}),
            "0309ac02000000000000f83f08776f726b65722033090161");
  EXPECT_EQ(payload(StoredStatus{1.5, "{}"}), "04000000000000f83f027b7d");
  EXPECT_EQ(fields::CodecFault<Event>(50), "");
  EXPECT_EQ(fields::CodecFault<StoredStatus>(50), "");
}

TEST(RecordsTest, ThePageHasTheFields) {
  EXPECT_EQ((fields::PageFault<Record, Sample, MemberSample, Event, StoredStatus>(LEAT_HISTORY_PAGE)), "");
}

TEST(RecordsTest, ALaterVersionMayHaveMoreSeries) {
  ByteWriter out;
  Append(Example(), &out);
  constexpr size_t kHead = 12, kCount = kHead + 1 + 8 + 4, kEnd = kCount + 1 + 4 * kSeries;
  Bytes later(out.view().begin() + kHead, out.view().end());
  later[kCount - kHead] = std::byte{kSeries + 1};
  later.insert(later.begin() + kEnd - kHead, 4, std::byte{0x3f});
  const Bytes more = FrameOf(later);
  RecordReader reader(more, /*begun=*/true);
  auto record = reader.Next();
  ASSERT_TRUE(record);
  ByteWriter again;
  Append(*record, &again);
  EXPECT_TRUE(std::ranges::equal(again.view(), out.view()));

  Bytes earlier(out.view().begin() + kHead, out.view().end());
  earlier[kCount - kHead] = std::byte{kSeries - 1};
  earlier.erase(earlier.begin() + kEnd - kHead - 4, earlier.begin() + kEnd - kHead);
  const Bytes fewer = FrameOf(earlier);
  record = RecordReader(fewer, /*begun=*/true).Next();
  ASSERT_TRUE(record);
  EXPECT_TRUE(std::isnan(std::get<Sample>(*record).figures[kSeries - 1]));
  EXPECT_EQ(std::get<Sample>(*record).figures[kSeries - 2], static_cast<float>(kSeries - 2));
}

TEST(RecordsTest, ImpossibleValuesAreADamage) {
  const auto refused = [](const Record& record) {
    ByteWriter out;
    out.PutRaw(AsBytes(kHistoryMagic));
    Append(record, &out);
    return Decode(out.view()).damaged;
  };
  EXPECT_FALSE(refused(SampleAt(1)));
  EXPECT_TRUE(refused(SampleAt(kUnknown)));
  EXPECT_TRUE(refused(CoarseSample{SampleAt(1, 1, 5000)}));
  Sample endless = SampleAt(1);
  endless.span_s = 0;
  EXPECT_TRUE(refused(endless));
  EXPECT_TRUE(refused(Event{.kind = Event::Kind(10)}));
  EXPECT_TRUE(refused(Event{.number = ~uint64_t{0}}));
  EXPECT_TRUE(refused(Event{.text = std::string(1000, 'x')}));
  EXPECT_TRUE(refused(StoredStatus{kUnknown, "{}"}));
  for (const double time_s : {-1.0, 1e12, 1e300}) {
    EXPECT_TRUE(refused(SampleAt(time_s)));
    EXPECT_TRUE(refused(Event{.time_s = time_s}));
    EXPECT_TRUE(refused(StoredStatus{time_s, "{}"}));
  }
  endless.span_s = 1e30f;
  EXPECT_TRUE(refused(endless));
}

}  // namespace
}  // namespace leat::observe

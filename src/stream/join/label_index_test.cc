#include "stream/join/labels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/testing.h"
#include "stream/join/testing.h"

namespace leat::stream {
namespace {

using Record = MemoryTopic::Record;

class LabelIndexTest : public ::testing::Test {
 protected:
  // Appends the topic's labels up to `end`.
  void AppendTo(uint64_t end) {
    RecordBatch batch;
    batch.wanted = {{Attribute::Kind::kTimestamp, ""}, {Attribute::Kind::kKey, ""}};
    const Status read = MemoryTimedSource(topic_).Read(0, index_.end(), end, &batch);
    ASSERT_TRUE(read.ok()) << read.ToString();
    index_.Append(batch, 1, 0);
  }
  std::vector<Record>& labels() { return topic_->partitions[0].records; }
  // "offset value", or "none".
  std::string Find(const std::string& key, int64_t time, uint64_t begin = 0,
                   uint64_t end = std::numeric_limits<uint64_t>::max()) const {
    const auto label = index_.Find(AsBytes(key), time, begin, end);
    return label ? std::to_string(label->offset) + " " + std::string(AsText(label->value)) : "none";
  }

  static constexpr int64_t kWindow = 100;
  std::shared_ptr<MemoryTopic> topic_ = std::make_shared<MemoryTopic>(MemoryTopic{.partitions = {{}}});
  LabelIndex index_{kWindow};
};

TEST_F(LabelIndexTest, FindsTheFirstLabelInTheWindow) {
  labels() = {{"a", 1000, "a0"}, {"b", 1010, "b1"}, {"a", 1020, "a2"}, {"a", 1015, "a3"}, {"", 1015, "e4"}};
  AppendTo(2);
  AppendTo(5);
  EXPECT_EQ(index_.begin(), 0u);
  EXPECT_EQ(index_.end(), 5u);
  EXPECT_EQ(Find("a", 1000), "0 a0");
  EXPECT_EQ(Find("a", 1001), "2 a2") << "the first by offset, not by time";
  EXPECT_EQ(Find("a", 1021), "none") << "no label is before its event";
  EXPECT_EQ(Find("a", 900), "0 a0");
  EXPECT_EQ(Find("a", 899), "none");
  EXPECT_EQ(Find("b", 910), "1 b1");
  EXPECT_EQ(Find("", 1000), "4 e4");
  EXPECT_EQ(Find("c", 1000), "none");
  EXPECT_EQ(Find("a", 1000, 1), "2 a2");
  EXPECT_EQ(Find("a", 1001, 0, 2), "none");
  EXPECT_EQ(Find("a", std::numeric_limits<int64_t>::min()), "none");
  EXPECT_EQ(Find("a", std::numeric_limits<int64_t>::max()), "none");
}

TEST_F(LabelIndexTest, SomeRecordsAreNoLabels) {
  labels() = {{std::nullopt, 1000, "no key"},
              {"a", std::nullopt, "no time"},
              {"a", 1000, ""},
              {"a", 1000, "absent", true},
              {"a", 1000, "good"}};
  AppendTo(5);
  EXPECT_EQ(Find("a", 1000), "4 good");
  EXPECT_EQ(Find("", 1000), "none");
}

TEST_F(LabelIndexTest, TheRangeMovesOn) {
  for (int64_t i = 0; i < 40; ++i) labels().push_back({"k" + std::to_string(i % 7), i, std::to_string(i)});
  for (uint64_t end = 10; end <= 40; end += 10) AppendTo(end);
  const uint64_t all = index_.bytes();
  index_.DropBefore(15);
  EXPECT_EQ(index_.begin(), 10u) << "labels that came together";
  EXPECT_EQ(index_.end(), 40u);
  EXPECT_LT(index_.bytes(), all);
  EXPECT_EQ(Find("k0", 0), "14 14");
  index_.DropBefore(40);
  EXPECT_EQ(index_.begin(), 40u);
  EXPECT_EQ(Find("k0", 0), "none");
  EXPECT_EQ(index_.bytes(), 0u);
  labels().push_back({"k0", 50, "40"});
  AppendTo(41);
  EXPECT_EQ(Find("k0", 0), "40 40");
  index_.Restart(3);
  EXPECT_EQ(index_.begin(), 3u);
  EXPECT_EQ(index_.end(), 3u);
  EXPECT_EQ(index_.bytes(), 0u);
  AppendTo(5);
  EXPECT_EQ(Find("k3", 0), "3 3");
  EXPECT_EQ(Find("k0", 0), "none");
}

TEST_F(LabelIndexTest, FindsWhatALoopFinds) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    labels().clear();
    const uint64_t keys = seed % 2 == 0 ? 20 : 3;
    for (int64_t i = 0; i < 300; ++i) {
      labels().push_back({"k" + std::to_string(rng.Below(keys)), 3 * i + static_cast<int64_t>(rng.Below(50)),
                          rng.Chance(0.1) ? "" : std::to_string(i)});
    }
    index_.Restart(0);
    uint64_t dropped = 0;
    while (index_.end() < 300) {
      AppendTo(std::min<uint64_t>(300, index_.end() + 1 + rng.Below(40)));
      if (rng.Chance(0.5)) index_.DropBefore(dropped += rng.Below(index_.end() - dropped + 1));
      ASSERT_LE(index_.begin(), dropped);
      for (int i = 0; i < 30; ++i) {
        const std::string key = "k" + std::to_string(rng.Below(keys + 1));
        const auto time = static_cast<int64_t>(rng.Below(1000));
        const uint64_t begin = dropped + rng.Below(index_.end() - dropped + 1);
        const uint64_t end = begin + rng.Below(100);
        std::string expected = "none";
        for (uint64_t o = begin; o < std::min(end, index_.end()) && expected == "none"; ++o) {
          const Record& label = labels()[o];
          if (label.key == key && !label.value.empty() && *label.time >= time &&
              *label.time <= time + kWindow)
            expected = std::to_string(o) + " " + label.value;
        }
        ASSERT_EQ(Find(key, time, begin, end), expected);
      }
    }
  }
}

TEST_F(LabelIndexTest, AHotKeyTakesFewSteps) {
  constexpr uint64_t kLabels = 20'000;
  for (uint64_t i = 0; i < kLabels; ++i)
    labels().push_back({"hot", static_cast<int64_t>(i * 10), std::to_string(i)});
  for (uint64_t end = 1000; end <= kLabels; end += 1000) AppendTo(end);
  const uint64_t before = index_.steps();
  for (uint64_t i = 0; i < kLabels; i += 10)
    ASSERT_EQ(Find("hot", static_cast<int64_t>(i * 10)), std::to_string(i) + " " + std::to_string(i));
  EXPECT_EQ(Find("hot", kLabels * 10), "none");
  EXPECT_EQ(Find("hot", -1000), "none");
  EXPECT_EQ(Find("hot", 0, 50), "none") << "the window of 10 labels has ended before";
  EXPECT_EQ(Find("hot", 500, 55), "55 55");
  EXPECT_EQ(Find("hot", 500, 0, 50), "none");
  EXPECT_LT((index_.steps() - before) / (kLabels / 10), 100u) << "steps for an event, of 20,000 labels";
  index_.DropBefore(15'000);
  EXPECT_EQ(Find("hot", 140'000), "none");
  EXPECT_EQ(Find("hot", 160'000), "16000 16000");
}

}  // namespace
}  // namespace leat::stream

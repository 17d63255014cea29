#include "run/roles/input/split_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <set>

#include "base/rng.h"
#include "base/testing.h"
#include "job/testing.h"
#include "net/testing.h"
#include "stream/source.h"

namespace leat::roles {
namespace {

using net::testing::RunUntil;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

protocol::Cut MakeCut(uint64_t begin, uint64_t end, uint32_t batch_size, uint64_t seed,
                      uint32_t partition = 0) {
  protocol::Cut cut;
  cut.partition = partition;
  cut.after = cut.begin = {0, begin};
  cut.end = end;
  cut.batch_size = batch_size;
  cut.shuffle_seed = seed;
  return cut;
}

// A split whose records at `bad` (behind the cut's begin) did not decode.
PreparedSplit Decoded(const protocol::Cut& cut, const std::set<uint32_t>& bad) {
  PreparedSplit split;
  for (uint32_t i = 0; i < cut.events(); ++i) {
    if (!bad.contains(i)) split.rows.index.push_back(i);
  }
  split.rows.rows = split.rows.index.size();
  return split;
}

TEST(OrderRows, ByOffsetWhenNothingIsShuffled) {
  const auto cut = MakeCut(10, 17, 3, 0);
  auto split = Decoded(cut, {});
  OrderRows(cut, &split);
  EXPECT_THAT(split.order, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(split.starts, ElementsAre(0, 3, 6, 7));
  EXPECT_THAT(split.Batch(1), ElementsAre(3, 4, 5));
  EXPECT_THAT(split.Batch(2), ElementsAre(6));
}

TEST(OrderRows, DeadLettersLeaveTheirBatchesShorterAndTheOthersAsTheyAre) {
  const auto cut = MakeCut(0, 10, 3, 0);
  auto split = Decoded(cut, {1, 6, 7, 8});
  OrderRows(cut, &split);
  // Rows count good records alone: offsets 0 2 3 4 5 9.
  EXPECT_THAT(split.Batch(0), ElementsAre(0, 1));
  EXPECT_THAT(split.Batch(1), ElementsAre(2, 3, 4));
  EXPECT_THAT(split.Batch(2), IsEmpty());
  EXPECT_THAT(split.Batch(3), ElementsAre(5));
  split = Decoded(cut, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  OrderRows(cut, &split);
  for (uint32_t batch = 0; batch < cut.batches(); ++batch) EXPECT_THAT(split.Batch(batch), IsEmpty());
}

TEST(OrderRows, EveryGoodRecordIsInTheBatchThatItsCutPutsItIn) {
  Rng rng(3);
  PreparedSplit split;  // used again and again, as the loader does
  for (int round = 0; round < 200; ++round) {
    const uint64_t begin = rng.Below(1000);
    const auto cut = MakeCut(begin, begin + 1 + rng.Below(300), static_cast<uint32_t>(1 + rng.Below(40)),
                             rng.Chance(0.2) ? 0 : rng());
    std::set<uint32_t> bad;
    const double share = rng.Chance(0.3) ? 0 : rng.Uniform();
    for (uint32_t i = 0; i < cut.events(); ++i) {
      if (rng.Chance(share)) bad.insert(i);
    }
    split.rows = Decoded(cut, bad).rows;
    OrderRows(cut, &split);
    std::vector<uint32_t> training;
    protocol::TrainingOrder(cut, &training);
    ASSERT_EQ(split.starts.size(), cut.batches() + 1);
    ASSERT_EQ(split.order.size(), cut.events() - bad.size());
    for (uint32_t batch = 0; batch < cut.batches(); ++batch) {
      std::vector<uint32_t> expected, got;
      for (size_t k = size_t{batch} * cut.batch_size;
           k < std::min<size_t>(training.size(), (batch + 1) * cut.batch_size); ++k) {
        if (!bad.contains(training[k])) expected.push_back(training[k]);
      }
      for (uint32_t row : split.Batch(batch)) got.push_back(split.rows.index[row]);
      ASSERT_EQ(got, expected) << round << " " << batch;
    }
  }
}

// ---- the loader

const char* const kSchema = "{format: csv, fields: {x: {type: number}, y: {type: number, role: label}}}";

stream::Schema MakeSchema() {
  return stream::Schema::FromConfig(Config::Parse(kSchema, "job.yaml"));
}

class SplitLoaderTest : public ::testing::Test {
 protected:
  void Make(std::unique_ptr<stream::Source> source) {
    loader_.emplace(loop_, SplitReader(std::move(source), MakeSchema(), dead_letters_),
                    [this](uint64_t lease, Result<std::unique_ptr<PreparedSplit>> split) {
                      EXPECT_EQ(std::this_thread::get_id(), thread_);
                      done_.push_back(lease);
                      splits_.push_back(std::move(split));
                    });
  }
  void Make(int records, uint32_t partitions = 1) {
    std::vector<std::string> texts;
    for (int i = 0; i < records; ++i) texts.push_back(std::to_string(i) + "," + std::to_string(i % 2));
    Make(stream::MakeMemorySource(texts, partitions));
  }
  void Prepare(uint64_t id, const protocol::Cut& cut) {
    loader_->Prepare({id, cut, protocol::RunSet(cut.batches(), true)});
  }
  bool Await(size_t count) {
    return RunUntil(loop_, [&] { return splits_.size() >= count; });
  }

  net::Loop loop_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::vector<uint64_t> done_;
  std::vector<Result<std::unique_ptr<PreparedSplit>>> splits_;
  std::shared_ptr<stream::DeadLetterSink> dead_letters_;
  std::optional<SplitLoader> loader_;
};

TEST_F(SplitLoaderTest, SplitsComeDecodedInTheOrderAskedFor) {
  Make(100, 2);
  for (uint64_t id = 1; id <= 10; ++id)
    Prepare(id, MakeCut((id - 1) / 2 * 10, (id - 1) / 2 * 10 + 10, 4, id, id % 2));
  ASSERT_TRUE(Await(10));
  EXPECT_THAT(done_, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  for (size_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(splits_[i].ok());
    const auto& split = **splits_[i];
    const auto& cut = split.lease.cut;
    EXPECT_EQ(split.lease.id, i + 1);
    ASSERT_EQ(split.rows.rows, 10u);
    const auto first = static_cast<float>(cut.begin.offset + 50 * cut.partition);
    for (size_t row = 0; row < 10; ++row)
      EXPECT_EQ(split.rows.features[row], first + static_cast<float>(row));
    EXPECT_EQ(split.starts.size(), 4u);
    const std::set<uint32_t> all(split.order.begin(), split.order.end());
    EXPECT_EQ(all.size(), 10u);
  }
}

TEST_F(SplitLoaderTest, DeadLettersComeWithPlaceReasonAndRecord) {
  Make(stream::MakeMemorySource(std::vector<std::string>{"1,0", "2,1", "abc,1", "3,0", "4"}, 1));
  Prepare(1, MakeCut(1, 5, 2, 0));
  ASSERT_TRUE(Await(1));
  ASSERT_TRUE(splits_[0].ok());
  const auto& split = **splits_[0];
  EXPECT_EQ(split.rows.rows, 2u);
  ASSERT_EQ(split.rows.dead.size(), 2u);
  EXPECT_EQ(split.rows.dead[0].offset, 2u);
  EXPECT_THAT(split.rows.dead[0].reason, HasSubstr("abc"));
  EXPECT_EQ(split.rows.dead[0].record, "abc,1");
  EXPECT_EQ(split.rows.dead[1].offset, 4u);
  EXPECT_EQ(split.rows.dead[1].record, "4");
  EXPECT_THAT(split.Batch(0), ElementsAre(0));
  EXPECT_THAT(split.Batch(1), ElementsAre(1));
}

// Fails once, then keeps the records.
class FakeSink final : public stream::DeadLetterSink {
 public:
  Status Keep(const stream::RecordBatch& batch,
              std::span<const stream::DecodedRows::DeadLetter> dead) override {
    EXPECT_THAT(batch.wanted, ElementsAre(stream::Attribute{stream::Attribute::Kind::kKey, ""}));
    if (!std::exchange(failed, true)) return {Code::kUnavailable, "no broker"};
    for (const auto& letter : dead) kept.emplace_back(AsText(batch[letter.offset - batch.first_offset]));
    return {};
  }
  bool failed = false;
  std::vector<std::string> kept;
};

TEST_F(SplitLoaderTest, ASplitWhoseDeadLettersAreNotKeptIsNotReady) {
  const auto sink = std::make_shared<FakeSink>();
  dead_letters_ = sink;
  Make(stream::MakeMemorySource(std::vector<std::string>{"1,0", "2,1", "abc,1", "3,0", "4"}, 1));
  Prepare(1, MakeCut(0, 2, 2, 0));
  Prepare(2, MakeCut(1, 5, 2, 0));
  Prepare(2, MakeCut(1, 5, 2, 0));
  ASSERT_TRUE(Await(3));
  EXPECT_TRUE(splits_[0].ok()) << "it has none";
  EXPECT_EQ(splits_[1].status(), Status(Code::kUnavailable, "no broker"));
  ASSERT_TRUE(splits_[2].ok());
  EXPECT_EQ((*splits_[2])->rows.dead.size(), 2u);
  EXPECT_THAT(sink->kept, ElementsAre("abc,1", "4"));
}

// Reads records 1 and 2 as lost, or as absent.
class LosingSource final : public stream::Source {
 public:
  explicit LosingSource(bool absent = false) : absent_(absent) {}
  Result<std::vector<stream::PartitionRange>> Ranges() override { return source_->Ranges(); }
  Status Read(uint32_t partition, uint64_t begin, uint64_t end, stream::RecordBatch* out) override {
    LEAT_RETURN_IF_ERROR(source_->Read(partition, begin, end, out));
    if (absent_) {
      out->absent = {{1, 3}};
    } else {
      out->lost = {{1, 3, "chunk at offset 1: is damaged"}};
    }
    return Status();
  }

 private:
  const bool absent_;
  std::unique_ptr<stream::Source> source_ =
      stream::MakeMemorySource(std::vector<std::string>{"1,0", "2,1", "", "3,0"}, 1);
};

TEST_F(SplitLoaderTest, LostRecordsAreDeadLettersWhateverTheyContain) {
  Make(std::make_unique<LosingSource>());
  Prepare(1, MakeCut(0, 4, 4, 0));
  ASSERT_TRUE(Await(1));
  ASSERT_TRUE(splits_[0].ok());
  const auto& rows = (*splits_[0])->rows;
  EXPECT_THAT(rows.index, ElementsAre(0, 3));
  EXPECT_THAT(rows.features, ElementsAre(1, 3));
  ASSERT_EQ(rows.dead.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(rows.dead[i].offset, i + 1);
    EXPECT_EQ(rows.dead[i].reason, "chunk at offset 1: is damaged");
  }
}

TEST_F(SplitLoaderTest, AbsentRecordsAreNoDeadLetters) {
  Make(std::make_unique<LosingSource>(/*absent=*/true));
  Prepare(1, MakeCut(0, 4, 2, 0));
  ASSERT_TRUE(Await(1));
  ASSERT_TRUE(splits_[0].ok());
  const PreparedSplit& split = **splits_[0];
  EXPECT_THAT(split.rows.index, ElementsAre(0, 3));
  EXPECT_THAT(split.rows.features, ElementsAre(1, 3));
  EXPECT_TRUE(split.rows.dead.empty());
  EXPECT_THAT(split.Batch(0), ElementsAre(0));
  EXPECT_THAT(split.Batch(1), ElementsAre(1));
}

// Joins a record with a label of its own if its offset is in the range.
class LabelledSource final : public stream::Source {
 public:
  Result<std::vector<stream::PartitionRange>> Ranges() override { return source_->Ranges(); }
  Status Read(uint32_t partition, uint64_t begin, uint64_t end, stream::RecordBatch* out) override {
    LEAT_RETURN_IF_ERROR(source_->Read(partition, begin, end, out));
    stream::AttributeValues labels;
    for (uint64_t offset = begin; offset < end; ++offset) {
      std::string label(reinterpret_cast<const char*>(&offset), sizeof(offset));
      label += std::to_string(100 + offset);
      const bool joined = out->labels_begin <= offset && offset < out->labels_end;
      labels.Append(joined ? std::optional(AsBytes(label)) : std::nullopt);
    }
    out->attributes = {std::move(labels)};
    return {};
  }

 private:
  std::unique_ptr<stream::Source> source_ =
      stream::MakeMemorySource(std::vector<std::string>{"1", "2", "3", "4", "5"}, 1);
};

TEST_F(SplitLoaderTest, EventsAreJoinedWithTheLabelsOfTheLease) {
  auto schema = stream::Schema::FromConfig(Config::Parse(
      "{format: csv, fields: {x: {type: number}, y: {type: number, role: label, from: labels}}}",
      "job.yaml"));
  schema.label_records = {.format = stream::Schema::Format::kCsv, .columns = {"y"}};
  SplitReader reader(std::make_unique<LabelledSource>(), schema);
  PreparedSplit split;
  split.lease = {.id = 1, .cut = MakeCut(0, 5, 2, 0)};
  EXPECT_EQ(reader.Read(&split), Status(Code::kDataLoss, "a lease without labels"));
  split.lease.labels = {1, 4};
  ASSERT_TRUE(reader.Read(&split).ok());
  EXPECT_THAT(split.rows.index, ElementsAre(1, 2, 3));
  EXPECT_THAT(split.rows.labels, ElementsAre(101, 102, 103));
  EXPECT_EQ(split.rows.unjoined, 2u);
  EXPECT_TRUE(split.rows.dead.empty());
  EXPECT_EQ(split.Batch(0).size(), 1u);
  EXPECT_EQ(split.Batch(1).size(), 2u);
  EXPECT_EQ(split.Batch(2).size(), 0u);
}

TEST_F(SplitLoaderTest, ASplitThatCannotBeReadSaysWhyAndTheNextOneIsRead) {
  Make(20);
  Prepare(1, MakeCut(10, 30, 5, 0));
  Prepare(2, MakeCut(0, 20, 5, 0));
  ASSERT_TRUE(Await(2));
  ASSERT_FALSE(splits_[0].ok());
  EXPECT_EQ(splits_[0].status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(splits_[0].status().message(), HasSubstr("30"));
  ASSERT_TRUE(splits_[1].ok());
  EXPECT_EQ((*splits_[1])->rows.rows, 20u);
}

TEST_F(SplitLoaderTest, MemoryIsUsedAgain) {
  Make(1000);
  std::set<const PreparedSplit*> seen;
  for (uint64_t id = 1; id <= 50; ++id) {
    const uint64_t begin = id % 7 * 100;
    Prepare(id, MakeCut(begin, begin + 10 * (1 + id % 9), 10, id));
    ASSERT_TRUE(Await(1));
    auto split = std::move(*splits_[0]);
    splits_.clear();
    seen.insert(split.get());
    // Nothing is left of the split before.
    EXPECT_EQ(split->rows.rows, 10 * (1 + id % 9));
    EXPECT_EQ(split->rows.features.size(), split->rows.rows);
    EXPECT_EQ(split->order.size(), split->rows.rows);
    EXPECT_EQ(split->starts.size(), 2 + id % 9);
    EXPECT_EQ(split->rows.features[0], static_cast<float>(begin));
    loader_->Recycle(std::move(split));
  }
  EXPECT_EQ(seen.size(), 1u);
}

// A source whose reads block until they are released.
class SlowSource : public stream::Source {
 public:
  SlowSource(std::atomic<bool>* reading, std::atomic<bool>* let_go) : reading_(reading), let_go_(let_go) {}
  Result<std::vector<stream::PartitionRange>> Ranges() override {
    return std::vector<stream::PartitionRange>();
  }
  Status Read(uint32_t, uint64_t, uint64_t, stream::RecordBatch*) override {
    *reading_ = true;
    WaitFor([this] { return let_go_->load(); });
    return Status(Code::kUnavailable, "let go");
  }

 private:
  std::atomic<bool>* reading_;
  std::atomic<bool>* let_go_;
};

TEST_F(SplitLoaderTest, DestructionCallsNothing) {
  std::atomic<bool> reading{false}, let_go{false};
  Make(std::make_unique<SlowSource>(&reading, &let_go));
  for (uint64_t id = 1; id <= 5; ++id) Prepare(id, MakeCut(0, 10, 5, 0));
  ASSERT_TRUE(WaitFor([&] { return reading.load(); }));
  std::thread later([&] { let_go = true; });
  loader_.reset();
  later.join();
  for (int i = 0; i < 5; ++i) loop_.RunOnce(std::chrono::milliseconds(1));
  EXPECT_THAT(done_, IsEmpty());
}

using ::testing::HasSubstr;

constexpr Duration kReadTimeout = std::chrono::seconds(5);

// After how long a worker gives up, if it is told of the error twice a second.
Duration GivesUpAfter(Code code) {
  protocol::WorkerProgress progress;
  InputErrors errors(job::Job::FromText(job::kSmallJob, "job"), kReadTimeout, &progress);
  const Time began{std::chrono::seconds(1000)};
  for (Time now = began; now < began + std::chrono::hours(1); now += errors.retry_interval()) {
    const Status status = errors.OnUnreadable(now, 7, Status(code, "partition 1"));
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(status.message(), HasSubstr("the stream cannot be read: partition 1"));
    EXPECT_EQ(progress.last_dead_letter, Status(code, "partition 1").ToString());
    return now - began;
  }
  return Duration::max();
}

TEST(InputErrors, BrokersHaveMinutesToComeBack) {
  const Duration interval = kReadTimeout / 10;
  EXPECT_EQ(GivesUpAfter(Code::kDataLoss), kReadTimeout + interval);
  EXPECT_EQ(GivesUpAfter(Code::kNotFound), kReadTimeout + interval);
  EXPECT_EQ(GivesUpAfter(Code::kInternal), 6 * kReadTimeout + interval);
  EXPECT_EQ(GivesUpAfter(Code::kPermissionDenied), 6 * kReadTimeout + interval);
  for (const Code code : {Code::kUnavailable, Code::kDeadlineExceeded, Code::kResourceExhausted})
    EXPECT_EQ(GivesUpAfter(code), 60 * kReadTimeout + interval) << CodeName(code);
}

TEST(InputErrors, ASplitThatIsReadEndsTheWait) {
  protocol::WorkerProgress progress;
  InputErrors errors(job::Job::FromText(job::kSmallJob, "job"), kReadTimeout, &progress);
  const Status why(Code::kDataLoss, "partition 1");
  const Time began{std::chrono::seconds(1000)};
  EXPECT_TRUE(errors.OnUnreadable(began, 7, why).ok());
  EXPECT_TRUE(errors.OnSplit(PreparedSplit()).ok());
  EXPECT_TRUE(errors.OnUnreadable(began + 2 * kReadTimeout, 7, why).ok());
  EXPECT_FALSE(errors.OnUnreadable(began + 4 * kReadTimeout, 7, why).ok());
}

}  // namespace

}  // namespace leat::roles
